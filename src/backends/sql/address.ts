import { type Address, describeHosts, parseAddress } from "../../core/address.js";
import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownOptions } from "../../core/options.js";
import { readTls, type TlsOptions, type TlsTexts } from "../../core/tls.js";

/** Options that every database server has. */
export interface ServerOptions {
  /** PEM texts, for TLS: who signed the server, and who we are. */
  readonly tls?: TlsOptions;
  /** `"create"` what is missing in the database, or only `"verify"` that it is there; `"create"` if not given. */
  readonly schema?: "create" | "verify";
  /** How many connections of ours there may be, besides the one that listens; 4 if not given. */
  readonly connections?: number;
  /** How long the last ticket of an idle name is kept; `"1h"` if not given. */
  readonly retention?: Duration;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration;
}

/** And those that each of them describes in its own words. */
interface Target<Pool> {
  readonly url?: string;
  readonly pool?: Pool;
  readonly prefix?: string;
}

export interface ServerSettings<Pool = unknown> {
  readonly target:
    | { readonly address: DatabaseAddress; readonly pool?: undefined }
    | { readonly pool: Pool; readonly address?: undefined };
  /** For messages: where, without credentials. */
  readonly where: string;
  readonly prefix: string;
  readonly mayCreate: boolean;
  readonly connections: number;
  readonly retentionMs: number;
  readonly timeoutMs: number;
}

/** What is different about the options of a database server. */
export interface ServerKind {
  /** What its option reader is called. */
  readonly engine: string;
  /** Whether that is a pool of its library, without calling anything on it; and, if not, what it should be. */
  isPool(pool: unknown): boolean;
  readonly whatPool: string;
  /** The default port by scheme. */
  readonly ports: ReadonlyMap<string, number>;
  /** Options that no other one has. */
  readonly own: readonly string[];
}

export interface DatabaseAddress extends Omit<Address, "path"> {
  readonly database: string | undefined;
  readonly tls: TlsTexts | undefined;
}

/** `known` is where the server is, if neither a URL nor a pool says it. */
export function readServerOptions<Pool>(
  kind: ServerKind,
  options: ServerOptions & Target<Pool>,
  known?: DatabaseAddress,
): ServerSettings<Pool> {
  const names = [
    "url",
    "pool",
    "prefix",
    ...kind.own,
    "tls",
    "schema",
    "connections",
    "retention",
    "timeout",
  ];
  knownOptions(options, new Set(names), kind.engine);
  const { schema = "create", connections = 4, prefix = "locktender" } = options;
  const target = known === undefined ? readTarget(kind, options) : { address: known };
  if (schema !== "create" && schema !== "verify")
    throw invalidOption('schema: must be "create" or "verify".');
  if (!Number.isInteger(connections) || connections < 1 || connections > 100) {
    throw invalidOption("connections: must be a whole number from 1 to 100.");
  }
  const { address } = target;
  return {
    target,
    where: address === undefined ? "the given pool" : describeHosts(address),
    prefix: readPrefix(prefix),
    mayCreate: schema === "create",
    connections,
    // The clock of a server may be corrected while it runs; a forgotten name must not notice.
    retentionMs: durationMs("retention", options.retention ?? "1h", { minMs: 1_000 }),
    timeoutMs: durationMs("timeout", options.timeout ?? "2s", { minMs: 10, maxMs: 60_000 }),
  };
}

function readTarget<Pool>(
  { engine, isPool, whatPool, ports }: ServerKind,
  { url, pool, tls, connections }: ServerOptions & Target<Pool>,
): ServerSettings<Pool>["target"] {
  if (url !== undefined && pool === undefined) return { address: readDatabaseUrl(engine, url, ports, tls) };
  if (pool === undefined || url !== undefined) throw invalidOption(`${engine}: give either a url or a pool.`);
  if (!isPool(pool)) throw invalidOption(`pool: must be ${whatPool}`);
  if (tls !== undefined || connections !== undefined) {
    throw invalidOption("tls, connections: a pool of yours has them already.");
  }
  return { pool };
}

/** What the tables and routines are called. It becomes an identifier, and a part of others. */
export function readPrefix(prefix: unknown): string {
  if (typeof prefix !== "string" || !/^[A-Za-z_][A-Za-z0-9_-]{0,39}$/.test(prefix)) {
    throw invalidOption(
      "prefix: must be 1 to 40 letters, digits, _ and -, and begin with a letter or _. It names what is made in the database.",
    );
  }
  return prefix;
}

/** One host or several, and `?sslmode=require` for TLS. The certificate is always checked. */
function readDatabaseUrl(
  engine: string,
  url: string,
  ports: ReadonlyMap<string, number>,
  tls: TlsOptions | undefined,
): DatabaseAddress {
  if (typeof url !== "string") throw invalidOption(`${engine}: the url must be a string.`);
  const [scheme] = ports.keys();
  const expected = `${scheme}://user:password@host:port/database, and ?sslmode=require for TLS`;
  const at = url.indexOf("?");
  const address = parseAddress(engine, at === -1 ? url : url.slice(0, at), ports, expected);
  const secure = readParameters(engine, at === -1 ? "" : url.slice(at + 1)) || tls !== undefined;
  const { hosts, username, password } = address;
  const database = decodeURIComponent(address.path);
  return {
    scheme: address.scheme,
    hosts,
    ...(username === undefined ? undefined : { username }),
    ...(password === undefined ? undefined : { password }),
    database: database === "" ? undefined : database,
    tls: secure ? readTls(tls ?? {}) : undefined,
  };
}

/** Whether TLS is asked for. Locks can only use the server that writes, so that one is looked for in any case. */
function readParameters(engine: string, query: string): boolean {
  const given = new URLSearchParams(query);
  for (const key of given.keys()) {
    if (key !== "sslmode" && key !== "target_session_attrs") {
      throw invalidOption(`${engine}: the url knows no parameters but sslmode and target_session_attrs.`);
    }
  }
  if (!["read-write", "primary"].includes(given.get("target_session_attrs") ?? "primary")) {
    throw invalidOption(`${engine}: target_session_attrs must be read-write or primary: locks are written.`);
  }
  const mode = given.get("sslmode") ?? "disable";
  if (mode === "disable") return false;
  if (mode === "require" || mode === "verify-full") return true;
  throw invalidOption(
    `${engine}: sslmode must be disable, require or verify-full. Certificates are always checked.`,
  );
}
