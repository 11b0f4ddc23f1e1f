/** The hosts of a URL that may name several. */
export function hostsOf(url: string): readonly { readonly host: string; readonly port: number }[] {
  const list = url
    .replace(/^.*?:\/\//, "")
    .replace(/\/.*$/, "")
    .replace(/^.*@/, "");
  return list.split(",").map((text) => {
    const [, host = "", port = ""] = /^(.*):(\d+)$/.exec(text) ?? [];
    return { host, port: Number(port) };
  });
}
