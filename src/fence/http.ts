import { nowMs } from "../core/clock.js";
import { type Duration, durationMs } from "../core/duration.js";
import { invalidOption, isLockError, LockError, StaleTokenError } from "../core/errors.js";
import { canonicalName, type LockName } from "../core/names.js";
import { knownOptions } from "../core/options.js";
import type { Executor } from "./executor.js";
import {
  admit,
  type Fenced,
  type FenceOptions,
  invalidToken,
  type Pass,
  passOf,
  raise,
  readToken,
} from "./fence.js";
import { type RedisLike, run } from "./redis.js";

/** Which lock is to be held, and what the fence stands in front of. */
export type HttpFenceOptions = FenceOptions & FencingTokenOptions;
type Handler<T> = (sender: Sender) => T | Promise<T>;

/**
 * Runs a handler behind the fence: `fenced(request, handler)`, or `fenced(request, { lock, resource }, handler)`. Without
 * `lock` the token of any lock is taken.
 */
export interface HttpFence {
  <T>(request: RequestLike, handler: Handler<T>): Promise<T>;
  <T>(request: RequestLike, options: HttpFenceOptions, handler: Handler<T>): Promise<T>;
}

interface Work {
  readonly token: bigint;
  readonly done: Promise<void>;
}

const OPTIONS: ReadonlySet<string> = new Set(["lock", "resource"]);

/**
 * Runs the handler of a request if no newer token was seen, and otherwise throws `StaleTokenError`. In this
 * process, handlers with older tokens end before one with a newer token begins: what they still write would
 * otherwise land after it. Where several processes serve, `fence` in the handler's own transaction does that.
 * Make one per service.
 *
 * @example
 * ```ts
 * import { httpFence } from "locktender/fence";
 *
 * const fenced = httpFence();
 * const put = (request: Request): Promise<Response> =>
 *   fenced(request, { lock: "stock:lamp" }, async ({ token }) => new Response(`written by ${token}`));
 * ```
 */
export function httpFence(store: FenceStore = memoryStore()): HttpFence {
  const atWork = new Map<string, Set<Work>>();

  async function inTurn<T>(resource: string, token: bigint, enter: () => Promise<void>, work: () => T) {
    const all = atWork.get(resource) ?? new Set();
    atWork.set(resource, all);
    let leave = () => {};
    const own: Work = { token, done: new Promise((resolve) => (leave = resolve)) };
    // Before the store is asked: an older one that comes after our look at them is refused by the store.
    all.add(own);
    try {
      await enter();
      await Promise.all([...all].filter((other) => other.token < token).map(({ done }) => done));
      return await work();
    } finally {
      leave();
      all.delete(own);
      if (all.size === 0) atWork.delete(resource);
    }
  }

  return async <T>(request: RequestLike, ...rest: [Handler<T>] | [HttpFenceOptions, Handler<T>]) => {
    const [options, handler]: [HttpFenceOptions, Handler<T>] = rest.length === 1 ? [{}, rest[0]] : rest;
    knownOptions(options, OPTIONS, "fence");
    if (typeof handler !== "function") throw invalidOption("fence: the last argument is the handler.");
    const sender = fencingToken(request, { lock: options.lock });
    const pass = passOf(sender, options);
    const enter = async () => admit(pass, await store.raise(pass.resource, pass.token));
    return inTurn(pass.resource, pass.token, enter, () => handler(sender));
  };
}

/** An answer to a request: the second argument of `new Response(body, …)`, or of `writeHead`. */
export interface Problem {
  /** 412: too old. 428: no token. 400: one that cannot be read. */
  readonly status: number;
  /** With `content-type`, and nothing else. */
  readonly headers: {
    /** `application/problem+json`. */
    readonly "content-type": string;
  };
  /** JSON as in RFC 9457. */
  readonly body: string;
}

export const PROBLEM_JSON = "application/problem+json";
/** Not 409: the request itself named the condition, and sending it again cannot help. */
const STATUS = { "stale-token": 412, "missing-token": 428, "invalid-token": 400 } as const;

export const problemType = (code: keyof typeof STATUS): string => `urn:locktender:${code}`;

/**
 * What to answer to a request that was refused; `undefined` if the error says nothing of its token.
 *
 * @example
 * ```ts
 * import { fenceProblem } from "locktender/fence";
 *
 * function answer(error: unknown): Response {
 *   const problem = fenceProblem(error);
 *   return problem ? new Response(problem.body, problem) : new Response(null, { status: 500 });
 * }
 * ```
 */
export function fenceProblem(error: unknown): Problem | undefined {
  const codes = Object.keys(STATUS) as (keyof typeof STATUS)[];
  const code = codes.find((one) => isLockError(error, one));
  if (code === undefined || !(error instanceof Error)) return undefined;
  const stale = isLockError(error, "stale-token")
    ? { name: error.lock, resource: error.resource, token: `${error.token}`, highest: `${error.highest}` }
    : undefined;
  const status = STATUS[code];
  const body = {
    type: problemType(code),
    title: code.replace("-", " "),
    status,
    detail: error.message,
    ...stale,
  };
  return { status, headers: { "content-type": PROBLEM_JSON }, body: JSON.stringify(body) };
}

type Fetch = typeof globalThis.fetch;

/**
 * A `fetch` that sends the lease's token along and stops when the lease is lost. It rejects with `StaleTokenError`
 * if the answer is that of a fence which has seen a newer token.
 *
 * @example
 * ```ts
 * import { fencedFetch } from "locktender/fence";
 *
 * await locks.mutex("stock:lamp").run(async (lease) => {
 *   await fencedFetch(lease)("http://127.0.0.1:8080/lamp", { method: "PUT" });
 * });
 * ```
 */
export function fencedFetch(
  lease: Fenced & {
    /** Ends the request: that of the lease. */
    readonly signal?: AbortSignal;
  },
  fetch: Fetch = globalThis.fetch,
): Fetch {
  return async (input, init) => {
    const pass = passOf(lease);
    const given = typeof input === "object" && "headers" in input ? input : undefined;
    const headers = new Headers(init?.headers ?? given?.headers);
    headers.set(FENCING_TOKEN, formatToken(pass));
    const signals = [lease.signal, init?.signal ?? given?.signal].filter((signal) => signal != null);
    const response = await fetch(input, { ...init, headers, signal: AbortSignal.any(signals) });
    await throwIfStale(response, pass);
    return response;
  };
}

async function throwIfStale(response: Response, { lock, token }: Pass): Promise<void> {
  if (response.status !== 412 || !response.headers.get("content-type")?.startsWith(PROBLEM_JSON)) return;
  const problem = (await response
    .clone()
    .json()
    .catch(() => undefined)) as Partial<Record<string, string>> | undefined;
  if (problem?.type !== problemType("stale-token")) return;
  throw new StaleTokenError(lock, {
    resource: problem.resource ?? lock,
    token,
    highest: readToken(problem.highest, lock),
  });
}

/** Where the newest token of each resource is kept, for a service that has no transaction to keep it in. */
export interface FenceStore {
  /** In one atomic step, raises the newest token of the resource, unless it is newer already. Says which it is now. */
  raise(resource: string, token: bigint): Promise<bigint>;
}

interface StoreOptions {
  /** How long a resource without writes is remembered, 30 days unless said otherwise. */
  readonly retention?: Duration | undefined;
}

/**
 * For a service of one process, which may forget when it ends.
 *
 * @example
 * ```ts
 * import { httpFence, memoryStore } from "locktender/fence";
 *
 * const fenced = httpFence(memoryStore({ retention: "90d" }));
 * ```
 */
export function memoryStore({ retention = "30d" }: StoreOptions = {}): FenceStore {
  const keptMs = durationMs("retention", retention, { minMs: 1_000, infinite: true });
  /** The one that was not seen for the longest time comes first. */
  const seen = new Map<string, { readonly token: bigint; readonly atMs: number }>();
  return {
    async raise(resource, token) {
      const atMs = nowMs();
      for (const [name, last] of seen) {
        if (last.atMs + keptMs >= atMs) break;
        seen.delete(name);
      }
      const before = seen.get(resource)?.token ?? 0n;
      const highest = before > token ? before : token;
      seen.delete(resource);
      seen.set(resource, { token: highest, atMs });
      return highest;
    },
  };
}

/**
 * In the fence's table. A pool will do, since each step is a transaction of its own.
 *
 * @example
 * ```ts
 * import { databaseStore, httpFence } from "locktender/fence";
 * import pg from "pg";
 *
 * const pool = new pg.Pool();
 * const query = async (sql: string) => (await pool.query(sql)).rows;
 * const fenced = httpFence(databaseStore({ dialect: "postgres", query }));
 * ```
 */
export function databaseStore(executor: Executor): FenceStore {
  return { raise: async (resource, token) => raise(executor, resource, token) };
}

/**
 * In Redis, as `fencedSet` keeps them: a server that evicts keys may forget them.
 *
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { httpFence, redisStore } from "locktender/fence";
 *
 * const fenced = httpFence(redisStore(new Redis()));
 * ```
 */
export function redisStore(client: RedisLike, { retention }: StoreOptions = {}): FenceStore {
  const nothing = { script: "", keys: [] };
  return {
    raise: async (resource, token) => (await run(client, { resource, token }, nothing, retention)).highest,
  };
}

/**
 * The header that carries a token: an item of RFC 9651, the lock's name as a display string (or a plain string),
 * with the token as the parameter `token`. That one is a string, because integers have at most 15 digits there.
 *
 *   Fencing-Token: %"stock:lamp";token="1837880256828234752"
 */
export const FENCING_TOKEN = "Fencing-Token";

/** A request of the platform, or one of `node:http`. */
export interface RequestLike {
  /** Those of the platform are asked with `get`; those of `node:http` are in lower case. */
  readonly headers:
    | {
        /** The header of that name. */
        get(name: string): string | null;
      }
    | { readonly [name: string]: string | readonly string[] | undefined };
}

/** Whose token is taken. */
export interface FencingTokenOptions {
  /** The lock that the resource stands behind: the token of another one is refused. */
  readonly lock?: LockName | undefined;
}

const HEADER_OPTIONS: ReadonlySet<string> = new Set(["lock"]);
const DISPLAY = /%"(?:[ !#$&-~]|%[0-9a-f]{2})*"/;
const STRING = /"(?:[ !#-[\]-~]|\\["\\])*"/;
/** Values of other kinds: numbers, tokens, booleans, bytes, dates. They are read over. */
const OTHER = /[\w:?@+/=*.!#$%&'^`|~-]+/;
const PARAMETER = new RegExp(
  `; *([a-z*][a-z\\d_.*-]*)(?:=(${DISPLAY.source}|${STRING.source}|${OTHER.source}))?`,
);
const ITEM = new RegExp(`^ *(${DISPLAY.source}|${STRING.source})((?:${PARAMETER.source})*) *$`);

function formatToken({ lock, token }: Pick<Pass, "lock" | "token">): string {
  const name = [...Buffer.from(lock)].map((byte) => {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x25;
    return plain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`;
  });
  return `%"${name.join("")}";token="${token}"`;
}

/** What a request said of its lease. */
export interface Sender {
  /** The name of the lock. */
  readonly name: string;
  /** The fencing token of the lease. */
  readonly token: bigint;
}

/**
 * What a request says of its lease. Throws `missing-token` if it says nothing, `invalid-token` if that cannot be read or is
 * another lock's. It does not look whether the token is too old: see `httpFence` and `fence`.
 *
 * @example
 * ```ts
 * import { fencingToken } from "locktender/fence";
 *
 * const request = { headers: { "fencing-token": '%"stock:lamp";token="1837880256828234752"' } };
 * const { name, token } = fencingToken(request, { lock: "stock:lamp" });
 * ```
 */
export function fencingToken(request: RequestLike, options: FencingTokenOptions = {}): Sender {
  knownOptions(options, HEADER_OPTIONS, "fencingToken");
  const sender = read(request);
  const lock = options.lock === undefined ? sender.name : canonicalName(options.lock);
  if (sender.name === lock) return sender;
  throw invalidToken(`the token of "${sender.name}" says nothing here, where "${lock}" is to be held.`, lock);
}

function read(request: RequestLike): Sender {
  const text = headerOf(request);
  if (text === undefined) {
    throw new LockError(
      "missing-token",
      `the request has no ${FENCING_TOKEN} header, so it cannot be known whose write it is.`,
    );
  }
  const [, item, parameters = ""] = ITEM.exec(text) ?? [];
  if (item === undefined) throw unreadable(text);
  const found = [...parameters.matchAll(new RegExp(PARAMETER, "g"))].findLast(([, key]) => key === "token");
  if (found?.[2] === undefined) throw unreadable(text);
  try {
    const name = canonicalName(bare(item));
    return { name, token: readToken(bare(found[2]), name) };
  } catch (cause) {
    throw Object.assign(unreadable(text), { cause });
  }
}

function headerOf(request: RequestLike): string | undefined {
  const { headers } = (request ?? {}) as Partial<RequestLike>;
  if (typeof headers !== "object" || headers === null) {
    throw invalidOption("fence: the first argument is the request, with its headers.");
  }
  if (typeof headers.get === "function") return headers.get(FENCING_TOKEN) ?? undefined;
  const value = (headers as Readonly<Record<string, string | readonly string[] | undefined>>)[
    FENCING_TOKEN.toLowerCase()
  ];
  return Array.isArray(value) ? value.join(", ") : value?.toString();
}

/** The text that a string or a display string stands for. */
function bare(value: string): string {
  const inner = value.slice(value.indexOf('"') + 1, -1);
  return value.startsWith("%") ? decodeURIComponent(inner) : inner.replace(/\\(.)/g, "$1");
}

function unreadable(text: string): LockError {
  return invalidToken(
    `the ${FENCING_TOKEN} header cannot be read: ${JSON.stringify(text.slice(0, 80))}. It looks like %"stock:lamp";token="1837880256828234752".`,
  );
}
