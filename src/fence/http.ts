import { nowMs } from "../core/clock.js";
import { type Duration, durationMs } from "../core/duration.js";
import { invalidOption, isLockError, StaleTokenError } from "../core/errors.js";
import { knownOptions } from "../core/options.js";
import { raise } from "./database.js";
import type { Executor } from "./executor.js";
import { admit, type Fenced, type FenceOptions, type Pass, passOf, readToken } from "./fenced.js";
import {
  FENCING_TOKEN,
  type FencingTokenOptions,
  fencingToken,
  formatToken,
  type RequestLike,
  type Sender,
} from "./header.js";
import { type RedisLike, run } from "./redis.js";

export type HttpFenceOptions = FenceOptions & FencingTokenOptions;
type Handler<T> = (sender: Sender) => T | Promise<T>;

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
  readonly status: number;
  readonly headers: { readonly "content-type": string };
  /** JSON as in RFC 9457. */
  readonly body: string;
}

export const PROBLEM_JSON = "application/problem+json";
/** Not 409: the request itself named the condition, and sending it again cannot help. */
const STATUS = { "stale-token": 412, "missing-token": 428, "invalid-token": 400 } as const;

export const problemType = (code: keyof typeof STATUS): string => `urn:locktender:${code}`;

/** What to answer to a request that was refused; `undefined` if the error says nothing of its token. */
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
 */
export function fencedFetch(
  lease: Fenced & { readonly signal?: AbortSignal },
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

/** For a service of one process, which may forget when it ends. */
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

/** In the fence's table. A pool will do, since each step is a transaction of its own. */
export function databaseStore(executor: Executor): FenceStore {
  return { raise: async (resource, token) => raise(executor, resource, token) };
}

export function redisStore(client: RedisLike, { retention }: StoreOptions = {}): FenceStore {
  const nothing = { script: "", keys: [] };
  return {
    raise: async (resource, token) => (await run(client, { resource, token }, nothing, retention)).highest,
  };
}
