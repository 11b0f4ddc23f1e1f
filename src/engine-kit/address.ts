import { LockError } from "../core/errors.js";
import { type ParameterTable, readParameters } from "./url-parameters.js";

/** A server. The host is the path of a Unix socket, or of its folder, if it begins with a slash. */
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

/** What the URLs of an engine look like. */
export interface UrlForm<Sets extends string = string> {
  /** What it is called in messages. */
  readonly engine: string;
  /** The default port by scheme. */
  readonly ports: ReadonlyMap<string, number>;
  readonly expected: string;
  /** Those that set `host`, `port`, `username` or `password` count here, and more than what stands in front. */
  readonly parameters: ParameterTable<Sets>;
  /** Schemes in which the path is that of a Unix socket. Without it, the engine has no such sockets. */
  readonly socketSchemes?: ReadonlySet<string>;
}

const NO_HOST = "it names no host. For a server on this machine, write 127.0.0.1";

/** The parts of an address that a parameter can set. */
interface Overrides {
  readonly host?: string;
  readonly port?: number;
  readonly username?: string;
  readonly password?: string;
}

/** As it is meant: a secret may end with a line break, and a scheme may be written in capitals. */
export function tidyUrl(url: string): string {
  return url.trim().replace(/^[a-z+]+:/i, (scheme) => scheme.toLowerCase());
}

/** Nothing of the text is repeated in an error but the names of parameters: it may be secret. */
export function parseAddress<Sets extends string>(
  form: UrlForm<Sets>,
  given: string,
): Address & { readonly parameters: Readonly<Partial<Record<Sets, unknown>>> } {
  const { engine, ports, expected, socketSchemes } = form;
  const fail = (why: string) => new LockError("invalid-option", `this ${engine} URL cannot be used: ${why}.`);
  if (typeof given !== "string") throw fail("it must be a string");
  const url = tidyUrl(given);
  const match = /^([a-z+]+):\/\/(?:([^/?#]*)@)?([^@/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(url);
  const [, scheme = "", credentials = "", hostList = "", path = "", query = ""] = match ?? [];
  const defaultPort = ports.get(scheme);
  // Else a part of the password would be taken for a host, a path or a parameter, and be shown in errors.
  if (/@/.test(`${credentials}${path}${query}`) || (match === null && /[/?#].*@/.test(afterScheme(url)))) {
    throw fail(
      "in a user name or password, / is written %2F, @ is written %40, ? is written %3F and # is written %23",
    );
  }
  if (match === null || defaultPort === undefined) throw fail(`expected ${expected}`);
  const colon = credentials.indexOf(":");
  const user = decode(colon === -1 ? credentials : credentials.slice(0, colon));
  const secret = decode(colon === -1 ? "" : credentials.slice(colon + 1));
  const decodedPath = decode(path);
  if (user === undefined || secret === undefined || decodedPath === undefined) {
    throw fail("credentials and names must be percent-encoded");
  }
  const parameters = readParameters(engine, query, form.parameters);
  const over = parameters as Overrides;
  const isSocket = socketSchemes?.has(scheme) === true;
  const written = isSocket ? `/${decodedPath}` : (over.host ?? hostList);
  if (written === "") throw fail(NO_HOST);
  if (isSocket && (hostList !== "" || path === "")) throw fail(`expected ${scheme}:///path/of/the.sock`);
  // As psql reads it: a parameter for the host leaves the port that stands in front.
  const inFront = over.host === undefined ? [] : hostList.split(",").map(portIn);
  const hosts = (written.startsWith("/") ? [written] : written.split(",")).map((one, index) => {
    if (/^:\d*$/.test(one)) throw fail(NO_HOST);
    const host = parseHost(one, inFront[index] ?? inFront[0] ?? defaultPort, over.port);
    if (host === undefined) throw fail("a host must look like name:port");
    if (host.host.startsWith("/") && socketSchemes === undefined) throw fail("it has no Unix sockets");
    return host;
  });
  const username = over.username ?? user;
  const password = over.password ?? secret;
  return {
    scheme,
    hosts,
    path: isSocket ? "" : path,
    ...(username === "" ? undefined : { username }),
    ...(password === "" ? undefined : { password }),
    parameters,
  };
}

/** For messages: where, without credentials. */
export function describeHosts({ hosts }: Pick<Address, "hosts">): string {
  return hosts.map(({ host, port }) => (host.startsWith("/") ? host : `${host}:${port}`)).join(", ");
}

function portIn(text: string): number | undefined {
  const port = /:(\d{1,5})$/.exec(text)?.[1];
  return port === undefined ? undefined : Number(port);
}

/** A path, which may have colons in it; or a name or a percent-encoded path, which may have a port behind it. */
function parseHost(text: string, defaultPort: number, setPort?: number): Host | undefined {
  if (text.startsWith("/")) return isPath(text) ? { host: text, port: setPort ?? defaultPort } : undefined;
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text);
  const name = match?.[1] ?? match?.[2];
  const host = name?.includes("%") ? decode(name) : name;
  const port = setPort ?? Number(match?.[3] ?? defaultPort);
  if (host === undefined || (host !== name && !isPath(host))) return undefined;
  return port < 1 || port > 65_535 ? undefined : { host, port };
}

function isPath(text: string): boolean {
  return text.startsWith("/") && !/\p{Cc}/u.test(text);
}

function afterScheme(url: string): string {
  return url.slice(url.indexOf("//") + 2);
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
