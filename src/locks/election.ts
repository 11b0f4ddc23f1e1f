import type { ClaimView } from "../core/claim.js";
import type { Connection } from "../core/connection.js";
import { lookAt, viewOf } from "../core/diagnostics/view.js";
import { type Duration, durationMs } from "../core/duration.js";
import { invalidOption, isLockError, isOutage } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import { type AcquireOptions, checkSignal, knownOptions } from "../core/options.js";
import { delay, FirstAbort } from "../core/timer.js";
import { type Callback, type Lockable, runHeld } from "./lockable.js";

/** What `lead` may say. It has no `wait`: a candidate waits until it is elected, or until its signal aborts. */
export type LeadOptions = Pick<AcquireOptions, "signal" | "ttl" | "minHold" | "maxHold" | "note">;

/** How `observe` looks, and for how long. */
export interface ObserveOptions {
  /** How often to look; `"1s"` if not given. */
  readonly every?: Duration | undefined;
  /** Ends it. */
  readonly signal?: AbortSignal | undefined;
}

const LEAD_OPTIONS = new Set<string>([
  "signal",
  "ttl",
  "minHold",
  "maxHold",
  "note",
] satisfies (keyof LeadOptions)[]);
const OBSERVE_OPTIONS = new Set<string>(["every", "signal"] satisfies (keyof ObserveOptions)[]);
const RETRY_MS = 1_000;
const SELDOM_MS = 86_400_000;

/** One leader at a time among all that campaign. The term is the token of the lease. */
export class Election {
  /** The whole name, with its scope. */
  readonly name: string;
  readonly #connection: Connection;
  readonly #seat: Lockable;

  /** @internal */
  constructor(connection: Connection, seat: Lockable) {
    this.name = seat.name;
    this.#connection = connection;
    this.#seat = seat;
  }

  /**
   * Campaigns, and calls `fn` when elected. Whatever `fn` returns or throws while it leads ends it: the seat is
   * given back, and `lead` settles in the same way. If the lease is lost instead, its signal aborts; when `fn` has
   * settled, the campaign begins again. An outage of the engine does not end a campaign. `close` aborts the signal
   * at once; `lead` then resolves with what `fn` returns, and a candidate that was not elected gets the error `closed`.
   *
   * @example
   * ```ts
   * await locks.election("scheduler").lead(async ({ signal }) => {
   *   await work(signal);
   * });
   * ```
   */
  lead<T>(fn: Callback<T>): Promise<T>;
  /** Campaigns, and calls `fn` when elected: as without options. */
  lead<T>(options: LeadOptions, fn: Callback<T>): Promise<T>;
  async lead<T>(...args: [Callback<T>] | [LeadOptions, Callback<T>]): Promise<T> {
    const [options, fn] = args.length === 1 ? [{}, args[0]] : args;
    if (typeof fn !== "function") throw invalidOption("lead: the last argument must be the function to run.");
    knownOptions(options, LEAD_OPTIONS, `election "${this.name}"`, this.name);
    for (;;) {
      const lease = await this.#elected(options);
      let ended = false;
      let done: { readonly value: T } | undefined;
      const term = async () => {
        try {
          const value = await fn(lease);
          done = { value };
          return value;
        } catch (error) {
          ended = lease.released ? await lease.release().catch(() => true) : lease.held;
          throw error;
        }
      };
      try {
        return await runHeld(lease, term);
      } catch (error) {
        // All else is the loss of the seat, also if only its release has noticed, or nothing has before the first call.
        if (ended) throw error;
        // Told to stop by a shutdown, and it did: it led until the end.
        if (isLockError(error, "lost") && error.loss === "closed") {
          if (done !== undefined) return done.value;
          throw error;
        }
      }
      options.signal?.throwIfAborted();
    }
  }

  async #elected(options: LeadOptions): Promise<Lease> {
    for (;;) {
      try {
        return await this.#seat.acquire({ ...options, wait: Infinity });
      } catch (error) {
        if (!isOutage(error)) throw error;
        const about = this.#connection.about({ name: this.name, kind: "election" });
        this.#connection.events.emit({ type: "campaign-failed", ...about, error });
        await delay(RETRY_MS * (0.5 + Math.random()), options.signal);
      }
    }
  }

  /**
   * The leader now; `undefined` if there is none. It may be another one by the time it is read.
   *
   * @example
   * ```ts
   * const leader = await locks.election("scheduler").leader();
   * console.log(leader?.owner.host ?? "no leader");
   * ```
   */
  async leader(): Promise<ClaimView | undefined> {
    this.#connection.assertNotClosed(this.name);
    const record = await lookAt(this.#connection, this.name, 1);
    return record && viewOf(this.#connection, record).holders[0];
  }

  /**
   * The leader, now and after every change, `undefined` while there is none. Ends by its signal, or with the connection.
   *
   * @example
   * ```ts
   * for await (const leader of locks.election("scheduler").observe({ every: "5s" })) {
   *   console.log(leader?.owner.host ?? "no leader");
   *   break; // or go on until its signal aborts
   * }
   * ```
   */
  async *observe(options: ObserveOptions = {}): AsyncGenerator<ClaimView | undefined, void, undefined> {
    knownOptions(options, OBSERVE_OPTIONS, "observe");
    const everyMs = durationMs("every", options.every ?? "1s", { minMs: 10, maxMs: SELDOM_MS });
    const { signal } = options;
    checkSignal(signal, this.name);
    this.#connection.assertOpen(this.name);
    // An observer that looks seldom must not keep a program alive that has closed its connection.
    const over = new FirstAbort();
    over.add(this.#connection.closing);
    if (signal !== undefined) over.add(signal);
    try {
      let told = false;
      for (let last: bigint | undefined; !over.signal.aborted; ) {
        const leader = await this.#seen();
        if (leader !== "unknown" && (!told || leader?.token !== last)) {
          told = true;
          last = leader?.token;
          yield leader;
        }
        await delay(everyMs, over.signal).catch(() => undefined);
      }
    } finally {
      over.end();
    }
  }

  /** An engine that does not answer says nothing about who leads. */
  async #seen(): Promise<ClaimView | undefined | "unknown"> {
    try {
      return await this.leader();
    } catch (error) {
      if (isOutage(error)) return "unknown";
      throw error;
    }
  }
}
