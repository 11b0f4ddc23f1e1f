import type { AcquireRequest } from "./acquire-request.js";
import type { AnyLease } from "./any-lease.js";
import { type Duration, durationMs } from "./duration.js";
import { invalidOption } from "./errors.js";
import { callOf, takerOf } from "./misplaced-client.js";
import { quotedText } from "./plain-text.js";

const SHORTEST_TTL_MS = 20;
const LONGEST_TTL_MS = 86_400_000;
export const LONGEST_NOTE = 1_000;
const MOST_WAITERS = 1_000_000;

/** What one call of `acquire` or `run` may say. An option that is not known is an error. */
export interface AcquireOptions {
  /**
   * How long to wait: `"30s"` unless set at `connect`; `Infinity` is explicit; `0` asks once.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run({ wait: "5s" }, () => work());
   * ```
   */
  readonly wait?: Duration | undefined;
  /**
   * Ends the wait with the signal's own reason. Once the lock is held it does nothing: see `lease.signal`.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run({ signal: AbortSignal.timeout(5_000) }, () => work());
   * ```
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * How long the claim lives without being renewed, so how long others wait after a crash: `"15s"` unless set at
   * `connect`, from 20 ms to 24 h. Work may take longer: a lease is renewed at a third of it.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run({ ttl: "5s" }, () => work());
   * ```
   */
  readonly ttl?: Duration | undefined;
  /**
   * `false`: a fixed lease. Its ttl counts once, from the grant, and then it is lost, whatever the work does.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run({ ttl: "1m", renew: false }, (lease) => work(lease.signal));
   * ```
   */
  readonly renew?: boolean | undefined;
  /**
   * No other holder is let in earlier than this, whatever this holder does: for a job that is shorter than the clocks of
   * the machines are apart.
   *
   * @example
   * ```ts
   * await locks.mutex("nightly").tryRun({ minHold: "10s" }, () => work());
   * ```
   */
  readonly minHold?: Duration | undefined;
  /**
   * Renewed, but not held longer than this: then it is lost, with the loss `expired`. `Infinity`: no limit.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run({ maxHold: "10m" }, (lease) => work(lease.signal));
   * ```
   */
  readonly maxHold?: Duration | undefined;
  /**
   * What others see of this claim, in `inspect` and in their timeout errors: at most 1,000 characters. No secrets.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run({ note: `order ${orderId}` }, () => work());
   * ```
   */
  readonly note?: string | undefined;
  /**
   * `true`: meant to be held for as long as the process lives, so that it is never taken for a leak. Only `acquire` and
   * `tryAcquire` take it.
   *
   * @example
   * ```ts
   * const leader = await locks.mutex("this-machine").acquire({ keep: true });
   * ```
   */
  readonly keep?: boolean | undefined;
  /**
   * Enter by this lease, where the call chain does not show it; `null` stands outside the call chain.
   *
   * @example
   * ```ts
   * await using lease = await locks.mutex("report").acquire();
   * await locks.mutex("report", { reentrant: true }).run({ within: lease }, () => work());
   * ```
   */
  readonly within?: AnyLease | null | undefined;
  /**
   * Enter again if this call chain already holds the lock. Without it that is the error `self-deadlock`.
   *
   * @example
   * ```ts
   * const report = locks.mutex("report");
   * await report.run(() => report.run({ reentrant: true }, () => work()));
   * ```
   */
  readonly reentrant?: boolean | undefined;
  /**
   * Do not queue behind more than this many: the error is `queue-full`. Only where the engine has a queue.
   *
   * @example
   * ```ts
   * await locks.mutex("report").run({ maxWaiters: 100 }, () => work());
   * ```
   */
  readonly maxWaiters?: number | undefined;
}

/** A caller that only tries does not wait. */
export type TryOptionsOf<O extends AcquireOptions> = Omit<O, "wait" | "maxWaiters">;
/** What one call of `tryAcquire` or `tryRun` may say: it does not wait, so it has no `wait` and no `maxWaiters`. */
export type TryOptions = TryOptionsOf<AcquireOptions>;

export interface Defaults {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly maxHoldMs: number;
  readonly longHoldMs: number;
  readonly note: string;
  readonly reentrant: boolean;
  readonly maxWaiters: number | undefined;
  /** Only a mutex has it; 0: it is not sticky. */
  readonly stickyMs: number;
}

const NONE: AcquireOptions = {};

/** What a call that asks for a lock may say. */
export const ACQUIRE_OPTIONS: ReadonlySet<string> = new Set<string>([
  "wait",
  "signal",
  "ttl",
  "renew",
  "minHold",
  "maxHold",
  "note",
  "keep",
  "within",
  "reentrant",
  "maxWaiters",
] satisfies (keyof AcquireOptions)[]);

export function ttlOption(value: unknown): number {
  return durationMs("ttl", value, { minMs: SHORTEST_TTL_MS, maxMs: LONGEST_TTL_MS });
}

export function waitOption(value: unknown): number {
  return durationMs("wait", value, { infinite: true });
}

export function maxHoldOption(value: unknown): number {
  return durationMs("maxHold", value, { minMs: SHORTEST_TTL_MS, infinite: true });
}

export function isObject(options: unknown, where: string, must = "the options must be an object"): void {
  if (typeof options !== "object" || options === null) throw invalidOption(`${where}: ${must}.`);
}

/** Often given to `run` or `connect` by mistake. */
const OF_MUTEX: ReadonlySet<string> = new Set(["fair", "sticky"]);

/** A misspelt option would silently weaken a lock, so it is an error. */
export function knownOptions(
  options: object,
  known: ReadonlySet<string>,
  where: string,
  name?: string,
): void {
  isObject(options, where);
  for (const key of Object.keys(options)) {
    if (known.has(key)) continue;
    const others = known.size === 0 ? "It takes none" : `Known are ${[...known].join(", ")}`;
    const home = OF_MUTEX.has(key) ? ` It is an option of locks.mutex(name, { ${key} }).` : "";
    throw invalidOption(
      `${where}: there is no option ${quotedText(key.slice(0, 40))}. ${others}.${home}`,
      name,
    );
  }
}

/** The same for the function of an engine, to which callers hand what they have, and not in an object. */
export function knownEngineOptions(options: object, known: ReadonlySet<string>, engine: string): void {
  const url = { engine, option: known.has("file") ? "file" : "url" };
  const taker = typeof options === "string" ? url : takerOf(options);
  if (taker !== undefined)
    throw invalidOption(`${engine}: the options must be an object. Write ${callOf(taker)}.`);
  knownOptions(options, known, engine);
}

export function noteText(note: unknown): string {
  if (typeof note !== "string" || note.length > LONGEST_NOTE) {
    throw invalidOption(`note: must be a string of at most ${LONGEST_NOTE} characters.`);
  }
  return note;
}

export function maxWaitersOption(value: unknown): number {
  if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > MOST_WAITERS) {
    throw invalidOption(
      `maxWaiters: must be a whole number from 0 to ${MOST_WAITERS}, not ${String(value)}.`,
    );
  }
  return value as number;
}

export function flag(option: string, value: unknown): boolean {
  if (typeof value !== "boolean")
    throw invalidOption(`${option}: must be true or false, not ${String(value)}.`);
  return value;
}

export function checkSignal(signal: unknown, name: string): void {
  if (signal !== undefined && !(signal instanceof AbortSignal))
    throw invalidOption("signal: must be an AbortSignal.", name);
}

/** What one call asks for, and whether it may enter by what its chain holds. */
export type ResolvedOptions = AcquireRequest & { readonly reentrant: boolean };

/** The options of one call as numbers, or an error that says which of them is invalid. */
export function readOptions(
  resource: Pick<AcquireRequest, "name" | "kind" | "weight" | "capacity" | "shares">,
  given: AcquireOptions | undefined,
  defaults: Defaults,
): ResolvedOptions {
  const { name, kind, weight, capacity, shares } = resource;
  const options = given ?? NONE;
  if (given !== undefined) knownOptions(given, ACQUIRE_OPTIONS, `lock "${name}"`, name);
  const ttlMs = options.ttl === undefined ? defaults.ttlMs : ttlOption(options.ttl);
  const fixed = options.renew !== undefined && !flag("renew", options.renew);
  const minHoldMs =
    options.minHold === undefined ? 0 : durationMs("minHold", options.minHold, { maxMs: LONGEST_TTL_MS });
  // A lock that is meant to last has no limit that it was not given itself.
  const lasts = kind === "election" || (options.keep !== undefined && flag("keep", options.keep));
  const maxHoldMs =
    options.maxHold === undefined
      ? fixed || lasts
        ? Infinity
        : defaults.maxHoldMs
      : maxHoldOption(options.maxHold);
  if (fixed && maxHoldMs !== Infinity) {
    throw invalidOption(
      "maxHold: a lease with renew: false ends with its ttl anyway; give one of them.",
      name,
    );
  }
  if (minHoldMs > maxHoldMs || (fixed && minHoldMs > ttlMs)) {
    throw invalidOption(
      "minHold: must not be longer than the lease may last (maxHold, or ttl with renew: false).",
      name,
    );
  }
  checkSignal(options.signal, name);
  return {
    name,
    kind,
    weight,
    capacity,
    shares,
    ttlMs: Math.min(ttlMs, maxHoldMs),
    fixed,
    minHoldMs,
    maxHoldMs,
    longHoldMs: lasts ? Infinity : defaults.longHoldMs,
    waitMs: options.wait === undefined ? defaults.waitMs : waitOption(options.wait),
    signal: options.signal,
    note: options.note === undefined ? defaults.note : noteText(options.note),
    maxWaiters: options.maxWaiters === undefined ? defaults.maxWaiters : maxWaitersOption(options.maxWaiters),
    stickyMs: defaults.stickyMs,
    reentrant: options.reentrant === undefined ? defaults.reentrant : flag("reentrant", options.reentrant),
  };
}
