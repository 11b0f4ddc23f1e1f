/** Comments are for those who read the files, not for the server. */
export function withoutComments(source: string): string {
  return source.replace(/^\s*--.*\n/gm, "");
}
