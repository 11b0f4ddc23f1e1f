import type { CellStore } from "../core/cells.js";
import type { Connection } from "../core/connection.js";
import { type Duration, durationMs } from "../core/duration.js";
import { invalidOption, isLockError, LockError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import { type AcquireOptions, flag, knownOptions } from "../core/options.js";
import { cellsOf } from "./cell.js";
import type { Callback, Lockable } from "./lockable.js";
import { runHeld } from "./run.js";
import { jsonText } from "./stored-json.js";

export interface OnceOptions extends Pick<AcquireOptions, "wait" | "signal" | "ttl" | "note"> {
  /** How long the result is remembered. */
  readonly keep: Duration;
  /** What was asked for: the same key with another one is an error, and not somebody else's result. */
  readonly fingerprint?: string;
  /** Remember also that it failed: everybody gets that error then. */
  readonly keepErrors?: boolean;
}

/** `ran`: by this very call. The value is the one that is stored, after a round trip through JSON. */
export interface Once<T> {
  readonly ran: boolean;
  readonly value: T;
}

/** It failed when it ran, and that is what was to be remembered. */
export class OnceError extends LockError {
  declare readonly code: "once-failed";
}

interface Stored {
  /** Tells it from a cell of the same name. */
  readonly once: true;
  readonly keepMs: number;
  readonly fingerprint?: string | undefined;
  readonly value?: unknown;
  readonly error?: string;
}

const KNOWN = new Set<string>([
  ...["wait", "signal", "ttl", "note", "keep", "fingerprint", "keepErrors"],
] satisfies string[]);
const LONGEST_KEEP_MS = 400 * 86_400_000;
const LONGEST_FINGERPRINT = 1_000;
const LONGEST_ERROR = 2_000;

/** One stored result per key. The lock only keeps callers from running at the same time; what is stored decides. */
export class OnlyOnce<T> {
  readonly #cells: CellStore;
  readonly #name: string;
  readonly #lock: Lockable;
  readonly #options: OnceOptions;
  readonly #keepMs: number;

  constructor(connection: Connection, name: string, lock: Lockable, options: OnceOptions) {
    this.#cells = cellsOf(connection, name, "once");
    this.#name = name;
    this.#lock = lock;
    this.#options = options;
    knownOptions(options, KNOWN, `once "${name}"`);
    const { keep, fingerprint, keepErrors } = options;
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
  }

  async call(fn: Callback<T>): Promise<Once<T>> {
    const known = await this.#known();
    if (known !== undefined) return known;
    const { wait, signal, ttl, note } = this.#options;
    const options = Object.fromEntries(
      Object.entries({ wait, signal, ttl, note }).filter(([, set]) => set !== undefined),
    );
    const lease = await this.#lock.acquire(options);
    let done: Once<T> | undefined;
    const run = async () => {
      done = (await this.#known()) ?? (await this.#run(lease, fn));
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
    return cell === undefined ? undefined : this.#opened(JSON.parse(cell.text) as Stored);
  }

  /** Also who has lost the lock meanwhile stores what it has, unless somebody else was first. */
  async #run(lease: Lease, fn: Callback<T>): Promise<Once<T>> {
    let outcome: Pick<Stored, "value" | "error">;
    try {
      outcome = { value: (await fn(lease)) ?? null };
    } catch (error) {
      if (!this.#options.keepErrors) throw error;
      await this.#store({ error: String(error).slice(0, LONGEST_ERROR) });
      throw error;
    }
    const text = await this.#store(outcome);
    if (text !== undefined) return { ran: true, value: (JSON.parse(text) as Stored).value as T };
    const first = await this.#known();
    if (first !== undefined) return first;
    throw new LockError(
      "conflict",
      `the result of "${this.#name}" was stored by somebody else, and is gone.`,
      {
        name: this.#name,
        retryable: true,
      },
    );
  }

  /** `undefined` if somebody else has stored one: there is only one ever. */
  async #store(outcome: Pick<Stored, "value" | "error">): Promise<string | undefined> {
    const { fingerprint } = this.#options;
    const text = jsonText(
      { once: true, keepMs: this.#keepMs, fingerprint, ...outcome },
      "the result",
      this.#name,
    );
    const change = { text, ifVersion: null, keepMs: this.#keepMs };
    return (await this.#cells.write(this.#name, change)) === undefined ? undefined : text;
  }

  #opened(stored: Stored): Once<T> {
    const { keepMs, fingerprint, value, error } = stored?.once === true ? stored : ({} as Stored);
    if (fingerprint !== this.#options.fingerprint || keepMs !== this.#keepMs) {
      const what = keepMs === this.#keepMs ? "another fingerprint" : `keep: ${keepMs} ms`;
      throw new LockError(
        "once-mismatch",
        `"${this.#name}" was done once with ${what}. The same key means the same work: use another key for other work.`,
        { name: this.#name },
      );
    }
    if (error !== undefined) {
      throw new OnceError("once-failed", `"${this.#name}" has failed before, and that was kept: ${error}`, {
        name: this.#name,
      });
    }
    return { ran: false, value: value as T };
  }
}
