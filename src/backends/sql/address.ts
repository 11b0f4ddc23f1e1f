import { type Duration, durationMs } from "../../core/duration.js";
import { invalidOption } from "../../core/errors.js";
import { knownEngineOptions } from "../../core/options.js";
import { readTls, type TlsOptions, type TlsParameters, type TlsSettings } from "../../engine-kit/tls.js";
import {
  type Address,
  describeHosts,
  type Host,
  type ParameterTable,
  parseAddress,
  withParameters,
} from "../../engine-kit/url.js";
import { ReadOnlyServerError } from "./errors.js";
import { LONGEST_CONNECT_MS } from "./parameters.js";

/** Options that every database server has. */
export interface ServerOptions {
  /** PEM texts, for TLS: the authority that signed the server's certificate, and our own certificate and key. */
  readonly tls?: TlsOptions | undefined;
  /** `"create"` what is missing in the database, or only `"verify"` that it is there; `"create"` if not given. */
  readonly schema?: "create" | "verify" | undefined;
  /** How many connections of ours there may be, besides the one that listens; 4 if not given. */
  readonly connections?: number | undefined;
  /** How long the last ticket of an idle name is kept; `"1h"` if not given. */
  readonly retention?: Duration | undefined;
  /** How long one request may take; `"2s"` if not given. */
  readonly timeout?: Duration | undefined;
  /** How long it may take to open a connection; as long as a request if not given. */
  readonly connectTimeout?: Duration | undefined;
}

/** And those that each of them describes in its own words. */
interface Target<Pool> {
  readonly url?: string | undefined;
  readonly pool?: Pool | undefined;
  readonly prefix?: string | undefined;
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
  readonly connectMs: number;
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
  readonly parameters: ParameterTable;
  /** The names of its options. */
  readonly known: ReadonlySet<string>;
}

export interface DatabaseAddress extends Omit<Address, "path"> {
  readonly database: string | undefined;
  readonly tls: TlsSettings | undefined;
  /** What else the parameters of the URL have set. */
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** The names of the options that every database server has. */
export const SERVER_OPTIONS: readonly string[] = [
  "url",
  "pool",
  "prefix",
  "tls",
  "schema",
  "connections",
  "retention",
  "timeout",
  "connectTimeout",
];

/** `known` is where the server is, if neither a URL nor a pool says it. Also the options, with those of the URL. */
export function readServerOptions<Pool, Options extends ServerOptions & Target<Pool>>(
  kind: ServerKind,
  given: Options,
  known?: DatabaseAddress,
): { readonly settings: ServerSettings<Pool>; readonly options: Options } {
  knownEngineOptions(given, kind.known, kind.engine);
  const target = known === undefined ? readTarget(kind, given) : { address: known };
  const { address } = target;
  const options = withParameters(given, address?.parameters ?? {}, kind.known);
  const { schema = "create", connections = 4, prefix = "locktender", timeout = "2s" } = options;
  if (schema !== "create" && schema !== "verify")
    throw invalidOption('schema: must be "create" or "verify".');
  if (!Number.isInteger(connections) || connections < 1 || connections > 100) {
    throw invalidOption("connections: must be a whole number from 1 to 100.");
  }
  const opening = { minMs: 10, maxMs: LONGEST_CONNECT_MS };
  const settings = {
    target,
    where: address === undefined ? "the given pool" : describeHosts(address),
    prefix: readPrefix(prefix),
    mayCreate: schema === "create",
    connections,
    // The clock of a server may be corrected while it runs; a forgotten name must not notice.
    retentionMs: durationMs("retention", options.retention ?? "1h", { minMs: 1_000 }),
    timeoutMs: durationMs("timeout", timeout, { minMs: 10, maxMs: 60_000 }),
    connectMs: durationMs("connectTimeout", options.connectTimeout ?? timeout, opening),
  };
  return { settings, options };
}

function readTarget<Pool>(
  kind: ServerKind,
  { url, pool, tls, connections, connectTimeout }: ServerOptions & Target<Pool>,
): ServerSettings<Pool>["target"] {
  if (url !== undefined && pool === undefined) return { address: readDatabaseUrl(kind, url, tls) };
  if (pool === undefined || url !== undefined)
    throw invalidOption(`${kind.engine}: give either a url or a pool.`);
  if (!kind.isPool(pool)) throw invalidOption(`pool: must be ${kind.whatPool}`);
  if ([tls, connections, connectTimeout].some((option) => option !== undefined)) {
    throw invalidOption("tls, connections, connectTimeout: a pool of yours has them already.");
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

const NO_SOCKET_SCHEMES: ReadonlySet<string> = new Set();

/** One host or several, and what the parameters say. */
function readDatabaseUrl(
  { engine, ports, parameters: table }: ServerKind,
  url: string,
  tlsOptions: TlsOptions | undefined,
): DatabaseAddress {
  if (typeof url !== "string") throw invalidOption(`${engine}: the url must be a string.`);
  const [scheme] = ports.keys();
  const expected = `${scheme}://user:password@host:port/database, and ?sslmode=require for TLS`;
  const form = { engine, ports, expected, parameters: table, socketSchemes: NO_SOCKET_SCHEMES };
  const { path, ...address } = parseAddress(form, url);
  const { database, ...parameters } = address.parameters as { readonly database?: string };
  const tls = readTls(tlsOptions, parameters as TlsParameters);
  if (tls !== undefined && address.hosts.some(({ host }) => host.startsWith("/"))) {
    throw invalidOption(`${engine}: a Unix socket has no TLS. Leave sslmode and tls out.`);
  }
  return { ...address, database: (database ?? decodeURIComponent(path)) || undefined, tls, parameters };
}

/** The hosts of a URL. One that could write is tried first from then on. */
export class Hosts {
  readonly #hosts: readonly Host[];
  #first = 0;

  constructor(hosts: readonly Host[]) {
    this.#hosts = hosts;
  }

  /** The time that each of them gets, so that one that is silent does not use it up. */
  shareOf(timeoutMs: number): number {
    return Math.ceil(timeoutMs / this.#hosts.length);
  }

  /** Opens a connection to the first host that lets it. Only that one can be `lost`. */
  async open<T>(lost: () => void, open: (host: Host, lost: () => void) => Promise<T>): Promise<T> {
    const number = this.#hosts.length;
    let failure: unknown;
    for (let tried = 0; tried < number; tried++) {
      const at = (this.#first + tried) % number;
      try {
        const tells = { isOpen: false, isLost: false };
        const opened = await open(this.#hosts[at] as Host, () => {
          tells.isLost = true;
          if (tells.isOpen) lost();
        });
        tells.isOpen = true;
        if (tells.isLost) lost();
        this.#first = at;
        return opened;
      } catch (error) {
        // That one of them is a replica says more than that others are down.
        if (!(failure instanceof ReadOnlyServerError)) failure = error;
      }
    }
    throw failure;
  }
}
