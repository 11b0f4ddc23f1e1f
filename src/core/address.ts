import { LockError } from "./errors.js";

export interface Host {
  readonly host: string;
  readonly port: number;
}

/** What a URL with one or several hosts says. Not `new URL`, which knows only one. */
export interface Address {
  readonly scheme: string;
  readonly hosts: readonly Host[];
  readonly username?: string;
  readonly password?: string;
  /** What follows the first slash, as it was written. */
  readonly path: string;
}

/** `ports` are the default ports by scheme. Nothing of the text is repeated in an error: it may be secret. */
export function parseAddress(
  engine: string,
  url: string,
  ports: ReadonlyMap<string, number>,
  expected: string,
): Address {
  const fail = (why: string) => new LockError("invalid-option", `this ${engine} URL cannot be used: ${why}.`);
  const match = /^([a-z+]+):\/\/(?:([^/?#]*)@)?([^@/?#]*)(?:\/([^?#]*))?$/.exec(url);
  const [, scheme = "", credentials = "", hostList = "", path = ""] = match ?? [];
  const defaultPort = ports.get(scheme);
  if (match === null || defaultPort === undefined) throw fail(`expected ${expected}`);
  // Else a part of the password would be taken for a host or a path, and be shown in errors.
  if (`${credentials}${path}`.includes("@")) {
    throw fail("in a user name or password, / is written %2F and @ is written %40");
  }
  const hosts = (hostList || "127.0.0.1").split(",").map((text) => {
    const host = parseHost(text, defaultPort);
    if (host === undefined) throw fail("a host must look like name:port");
    return host;
  });
  const colon = credentials.indexOf(":");
  const user = decode(colon === -1 ? credentials : credentials.slice(0, colon));
  const secret = decode(colon === -1 ? "" : credentials.slice(colon + 1));
  if (user === undefined || secret === undefined || decode(path) === undefined) {
    throw fail("credentials and names must be percent-encoded");
  }
  return {
    scheme,
    hosts,
    path,
    ...(user === "" ? undefined : { username: user }),
    ...(secret === "" ? undefined : { password: secret }),
  };
}

/** For messages: where, without credentials. */
export function describeHosts({ hosts }: Pick<Address, "hosts">): string {
  return hosts.map(({ host, port }) => `${host}:${port}`).join(", ");
}

function parseHost(text: string, defaultPort: number): { host: string; port: number } | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3] ?? defaultPort);
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
