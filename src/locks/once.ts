import type { CellStore } from "../core/backend.js";
import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { type Duration, durationMs } from "../core/duration.js";
import { backendError, invalidOption, isLockError, isOutage, LockError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import {
  type AcquireOptions,
  checkSignal,
  flag,
  knownOptions,
  noteText,
  ttlOption,
  waitOption,
} from "../core/options.js";
import { plainText } from "../core/plain-text.js";
import { delay } from "../core/timer.js";
import { cellsOf, jsonText, storedJson } from "./cell.js";
import { type Callback, type Lockable, runHeld } from "./lockable.js";

/** What a call of `once` may say. */
export interface OnceOptions extends Pick<AcquireOptions, "wait" | "signal" | "ttl" | "note"> {
  /** How long the result is remembered. */
  readonly keep: Duration;
  /** What was asked for: the same key with another one is an error, and not another caller's result. */
  readonly fingerprint?: string | undefined;
  /** Remember also that it failed: every caller gets that error then. */
  readonly keepErrors?: boolean | undefined;
}

/** `ran`: by this very call. The value is the one that is stored, after a round trip through JSON. */
export interface Once<T> {
  /** Whether it was this very call that ran it. */
  readonly ran: boolean;
  /** What is stored. */
  readonly value: T;
}

/** It failed when it ran, and that is what was to be remembered. */
export class OnceError extends LockError {
  static override readonly name = "OnceError";
  declare readonly code: "once-failed";
}

interface Stored {
  /** Tells it from a cell of the same name. */
  readonly once: true;
  readonly keepMs: number;
  readonly fingerprint?: string | undefined;
  /** The token of the caller that ran it: so it knows its own result when the answer to its storing was lost. */
  readonly token: string;
  readonly value?: unknown;
  readonly error?: string;
}

interface Outcome {
  readonly stored: Pick<Stored, "value" | "error">;
  readonly failure?: { readonly thrown: unknown };
}

const KNOWN = new Set<string>([
  ...["wait", "signal", "ttl", "note", "keep", "fingerprint", "keepErrors"],
] satisfies string[]);
const LONGEST_KEEP_MS = 400 * 86_400_000;
const LONGEST_FINGERPRINT = 1_000;
const LONGEST_ERROR = 2_000;
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 1_000;

/** One stored result per key. The lock only keeps callers from running at the same time; what is stored decides. */
export class OnlyOnce<T> {
  readonly #connection: Connection;
  readonly #cells: CellStore;
  readonly #name: string;
  readonly #lock: Lockable;
  readonly #options: OnceOptions;
  readonly #keepMs: number;

  constructor(connection: Connection, name: string, lock: Lockable, options: OnceOptions) {
    this.#connection = connection;
    this.#cells = cellsOf(connection, name, "once");
    this.#name = name;
    this.#lock = lock;
    this.#options = options;
    knownOptions(options, KNOWN, `once "${name}"`, name);
    const { keep, fingerprint, keepErrors, wait, ttl, note, signal } = options;
    this.#keepMs = durationMs("keep", keep, { minMs: 1_000, maxMs: LONGEST_KEEP_MS });
    if (
      fingerprint !== undefined &&
      (typeof fingerprint !== "string" || fingerprint.length > LONGEST_FINGERPRINT)
    )
      throw invalidOption(
        `fingerprint: must be a string of at most ${LONGEST_FINGERPRINT} characters.`,
        name,
      );
    if (keepErrors !== undefined) flag("keepErrors", keepErrors);
    // What the lock would refuse is refused also where a result is stored, and no caller needs the lock.
    if (wait !== undefined) waitOption(wait);
    if (ttl !== undefined) ttlOption(ttl);
    if (note !== undefined) noteText(note);
    checkSignal(signal, name);
  }

  async call(fn: Callback<T>): Promise<Once<T>> {
    this.#connection.assertNotClosed(this.#name);
    this.#options.signal?.throwIfAborted();
    // Only a short cut: in an outage a caller waits for the lock, and asks again there.
    const known = await this.#known().catch(unlessOutage);
    if (known !== undefined) return known;
    const { wait, signal, ttl, note } = this.#options;
    const options = Object.fromEntries(
      Object.entries({ wait, signal, ttl, note }).filter(([, set]) => set !== undefined),
    );
    const lease = await this.#lock.acquire(options);
    let done: Once<T> | undefined;
    const run = async () => {
      done = await insist(lease, () => this.#known());
      // While it was asked for, the lock may have been lost: then another caller may be running already.
      if (done === undefined) lease.assertHeld();
      done ??= await this.#run(lease, fn);
      return done;
    };
    return runHeld(lease, run).catch((error: unknown) => {
      // What is stored counts, also if the lock was lost on the way.
      if (done !== undefined && isLockError(error, "lost")) return done;
      throw error;
    });
  }

  async #known(): Promise<Once<T> | undefined> {
    const cell = await this.#cells.read(this.#name);
    return cell && this.#opened(readStored(cell.text, this.#name));
  }

  /** Also a caller that has lost the lock meanwhile stores its result, unless another one was first. */
  async #run(lease: Lease, fn: Callback<T>): Promise<Once<T>> {
    const outcome = await this.#outcome(lease, fn);
    const stored = await this.#store(lease, outcome.stored).catch((error: unknown) => {
      throw outcome.failure === undefined ? this.#unstored(error) : outcome.failure.thrown;
    });
    if (stored.token !== String(lease.token)) return this.#opened(stored);
    if (outcome.failure !== undefined) throw outcome.failure.thrown;
    return { ran: true, value: stored.value as T };
  }

  async #outcome(lease: Lease, fn: Callback<T>): Promise<Outcome> {
    let value: unknown;
    try {
      value = (await fn(lease)) ?? null;
    } catch (thrown) {
      if (!this.#options.keepErrors) throw thrown;
      return { stored: { error: told(thrown) }, failure: { thrown } };
    }
    return { stored: { value: JSON.parse(jsonText(value, "the result", this.#name)) } };
  }

  /** What is stored then: this, or what another caller has stored before. There is only one ever. */
  async #store(lease: Lease, outcome: Outcome["stored"]): Promise<Stored> {
    const { fingerprint } = this.#options;
    const own: Stored = {
      once: true,
      keepMs: this.#keepMs,
      fingerprint,
      token: String(lease.token),
      ...outcome,
    };
    const text = jsonText(own, "the result", this.#name);
    const store = (ifVersion: bigint | null) =>
      this.#cells.write(this.#name, { text, ifVersion, keepMs: this.#keepMs });
    return insist(lease, async () => {
      if ((await store(null)) !== undefined) return own;
      const cell = await this.#cells.read(this.#name);
      const first = cell && readStored(cell.text, this.#name);
      if (first !== undefined && first.token !== own.token) return first;
      // An attempt of ours that has failed, as for want of replicas, has to be confirmed.
      if (cell !== undefined && (await store(cell.version)) !== undefined) return own;
      throw new LockError(
        "conflict",
        `the result of "${this.#name}" was stored by another caller, and is gone.`,
        { name: this.#name, retryable: true },
      );
    });
  }

  #unstored(error: unknown): unknown {
    if (!isLockError(error, "backend")) return error;
    return backendError(
      `"${this.#name}" was done, but its result could not be stored, so it may be done again: ${error.message}`,
      { name: this.#name, retryable: error.retryable, cause: error },
    );
  }

  #opened(stored: Stored): Once<T> {
    const { once, keepMs, fingerprint, value, error } = stored;
    if (once !== true || fingerprint !== this.#options.fingerprint || keepMs !== this.#keepMs) {
      const found = keepMs === this.#keepMs ? "another fingerprint" : `keep: ${keepMs} ms`;
      const what = once === true ? `was done once with ${found}` : "is the name of a cell";
      throw new LockError(
        "once-mismatch",
        `"${this.#name}" ${what}. The same key means the same work: use another key for other work.`,
        { name: this.#name },
      );
    }
    if (error !== undefined) {
      throw new OnceError(
        "once-failed",
        `"${this.#name}" has failed before, and that was kept: ${plainText(String(error))}`,
        {
          name: this.#name,
        },
      );
    }
    return { ran: false, value: value as T };
  }
}

/** A cell of that name may hold anything, also nothing. */
function readStored(text: string, name: string): Stored {
  return (storedJson(text, name) ?? {}) as Stored;
}

function unlessOutage(error: unknown): undefined {
  if (!isOutage(error)) throw error;
}

/** An engine that was away for a moment is no reason to do again what was done: it is asked for one ttl. */
async function insist<A>(lease: Lease, ask: () => Promise<A>): Promise<A> {
  const untilMs = nowMs() + lease.heldClaim.request.ttlMs;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    try {
      return await ask();
    } catch (error) {
      if (!isOutage(error) || nowMs() >= untilMs) throw error;
      await delay(pauseMs * (0.5 + Math.random() / 2));
    }
  }
}

/** In a few words; whatever was thrown. */
function told(error: unknown): string {
  try {
    return String(error).slice(0, LONGEST_ERROR);
  } catch {
    return "something that has no words for itself";
  }
}
