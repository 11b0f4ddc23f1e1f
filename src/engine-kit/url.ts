import { invalidOption, LockError } from "../core/errors.js";

/** What a parameter of a URL does. `Sets` are the names of all that parameters of the engine can set. */
export interface Parameter<Sets extends string = string> {
  /** Several parameters may set the same, because tools have different names for it; `null` if it sets nothing. */
  readonly sets: Sets | null;
  /** The value; `null` if this text sets nothing, and `undefined` if it is not valid. */
  readonly read: (text: string) => unknown;
  /** What the text must be. */
  readonly must: string;
}

/** The parameters that the URL of an engine may have. All others are refused. */
export interface ParameterTable<Sets extends string = string> {
  readonly honoured: Readonly<Record<string, Parameter<Sets>>>;
  /** Those of other tools that mean nothing to locks: pools, caches, types of values. None concerns TLS. */
  readonly withoutEffect: readonly string[];
}

/** Any text but none. */
export function text<Sets extends string>(sets: Sets): Parameter<Sets> {
  return { sets, read: (given) => given || undefined, must: "must not be empty" };
}

export function whole<Sets extends string>(sets: Sets): Parameter<Sets> {
  const read = (given: string) => (/^\d{1,9}$/.test(given) ? Number(given) : undefined);
  return { sets, read, must: "must be a whole number" };
}

/** Milliseconds, or a text with a unit. Whether it is one is judged where the option is read. */
export function duration<Sets extends string>(sets: Sets): Parameter<Sets> {
  const read = (given: string) => (/^\d{1,15}$/.test(given) ? Number(given) : given);
  return { sets, read, must: "" };
}

/** Seconds, as tools with a C ancestry count. 0 means "no limit" there, so it is the longest time. */
export function seconds<Sets extends string>(sets: Sets, longestMs: number): Parameter<Sets> {
  const read = (given: string) => {
    if (!/^\d{1,6}(\.\d+)?$/.test(given)) return undefined;
    return Math.min(Number(given) * 1_000 || longestMs, longestMs);
  };
  return { sets, read, must: "must be a number of seconds" };
}

/** One of these words, in capitals or not, each with its value. */
export function words<Sets extends string>(
  sets: Sets,
  values: Readonly<Record<string, unknown>>,
  must = `must be ${Object.keys(values).join(" or ")}`,
): Parameter<Sets> {
  const byWord = new Map(Object.entries(values));
  return { sets, read: (given) => byWord.get(given.toLowerCase()), must };
}

/** What changes nothing for us as long as it is this: what we do anyway. */
export function accepted(pattern: RegExp, must: string): Parameter<never> {
  return { sets: null, read: (given) => (pattern.test(given) ? null : undefined), must };
}

export function flag<Sets extends string>(sets: Sets): Parameter<Sets> {
  return words(sets, { true: true, false: false, 1: true, 0: false }, "must be true or false");
}

/** What the parameters of a URL set, by the names of the table. */
export function readParameters<Sets extends string>(
  engine: string,
  query: string,
  { honoured, withoutEffect }: ParameterTable<Sets>,
): Readonly<Partial<Record<Sets, unknown>>> {
  const values: Partial<Record<Sets, unknown>> = {};
  const setBy = new Map<Sets, string>();
  for (const [name, given] of new URLSearchParams(query)) {
    if (withoutEffect.includes(name)) continue;
    const parameter = Object.hasOwn(honoured, name) ? honoured[name] : undefined;
    if (parameter === undefined) {
      const known = Object.keys(honoured).join(", ");
      const why =
        known === "" ? "but it takes no parameters" : `which is not known here. Known are: ${known}`;
      throw invalidOption(`${engine}: the URL has a parameter ${shown(name)}, ${why}.`);
    }
    const { sets, read, must } = parameter;
    const value = read(given);
    if (value === undefined) throw invalidOption(`${engine}: ${name} in the URL ${must}.`);
    if (value === null || sets === null) continue;
    const other = setBy.get(sets);
    // Which of them counts would be a guess, and tools guess differently.
    if (other !== undefined && values[sets] !== value) {
      const both = other === name ? `${name} is given twice` : `${other} and ${name} contradict each other`;
      throw invalidOption(`${engine}: ${both} in the URL. Give one of them.`);
    }
    setBy.set(sets, name);
    values[sets] = value;
  }
  return values;
}

/** The options of an engine: what the caller gives, and what the URL says. `known` are the names of all. */
export function withParameters<Options extends object>(
  options: Options,
  parameters: object,
  known: Iterable<string>,
): Options {
  const merged = { ...options } as Record<string, unknown>;
  const said = parameters as Readonly<Record<string, unknown>>;
  for (const name of known) {
    if (said[name] === undefined) continue;
    if (merged[name] !== undefined)
      throw invalidOption(`${name}: is given as an option and in the URL. Give one of them.`);
    merged[name] = said[name];
  }
  return merged as Options;
}

/** Nothing but a plain name is repeated: a URL that was put together wrongly may have anything there. */
function shown(name: string): string {
  return /^[\w.-]{1,40}$/.test(name) ? `"${name}"` : "with a name that is not plain text";
}

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
