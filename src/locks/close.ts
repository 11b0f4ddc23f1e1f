import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { type Duration, durationMs } from "../core/duration.js";
import { invalidOption } from "../core/errors.js";
import { knownOptions } from "../core/options.js";
import { nextTurn, startTimer, stopTimer } from "../core/timer.js";

/** How long `close` waits for the work that is under way. */
export interface CloseOptions {
  /** How long running callbacks may go on; `"20s"` if not given. */
  readonly drain?: Duration | undefined;
  /** How long they get after their signals have aborted; `"5s"` if not given. */
  readonly abort?: Duration | undefined;
}

export interface CloseTimes {
  readonly drainMs: number;
  readonly abortMs: number;
}

export function readCloseOptions(options: CloseOptions): CloseTimes {
  knownOptions(options, new Set(["drain", "abort"]), "close");
  return {
    drainMs: durationMs("drain", options.drain ?? "20s"),
    abortMs: durationMs("abort", options.abort ?? "5s"),
  };
}

const closings = new WeakMap<Connection, Promise<void>>();

/**
 * No new claims; waiters withdraw; leaders are told to stop, and every other holder hears of it by `closing`.
 * Callbacks may finish, then their signals abort. One that still runs after that is not released: renewal stops and
 * the ttl ends the claim, so no second holder is let in beside the first. Of several calls the times of the first
 * one count.
 */
export function closeConnection(
  connection: Connection,
  times: CloseTimes,
  because = "close() was called on this connection",
): Promise<void> {
  const closing = closings.get(connection) ?? shutDown(connection, times, because);
  closings.set(connection, closing);
  return closing;
}

async function shutDown(
  connection: Connection,
  { drainMs, abortMs }: CloseTimes,
  because: string,
): Promise<void> {
  connection.stopEntry(because);
  // A leader works until it is told to stop: it is told at once.
  for (const grant of [...connection.grants]) if (grant.claim.kind === "election") grant.close();
  // A caller that has just been granted a lock reaches its callback in the microtasks of this turn.
  await nextTurn();
  await settled(connection.runs, drainMs);
  for (const grant of [...connection.grants]) grant.close();
  giveBackIdle(connection);
  await settled(connection.runs, abortMs);
  giveBackIdle(connection);
  await connection.finish();
}

/** A lease taken with `acquire` has no callback to wait for, or none any more. */
function giveBackIdle(connection: Connection): void {
  for (const grant of [...connection.grants]) {
    if (grant.running === 0) connection.inBackground(grant.giveBack());
  }
}

async function settled(runs: Connection["runs"], withinMs: number): Promise<void> {
  if (runs.size === 0) return;
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise((resolve) => {
    timer = startTimer(() => resolve(undefined), withinMs);
  });
  // A callback may start others by entering again, so the set is looked at until it is empty.
  const done = (async () => {
    while (runs.size > 0) await Promise.allSettled(runs);
  })();
  await Promise.race([done, late]);
  stopTimer(timer);
}

/** The signals that ask a program to end: `SIGTERM` from supervisors, `SIGINT` from Ctrl-C. */
export type CloseSignal = "SIGTERM" | "SIGINT";

const EXIT_CODES: Readonly<Record<CloseSignal, number>> = { SIGTERM: 128 + 15, SIGINT: 128 + 2 };
const SIGNALS = Object.keys(EXIT_CODES) as CloseSignal[];

/** Known to every copy of the package in this process. */
const OURS = Symbol.for("locktender.onSignal");

/** A signal that comes again later than this means "now". Before, it is the same one, passed on by npm as well. */
const REPEATED_MS = 1_000;

type Close = (signal: CloseSignal) => Promise<void>;

export function readCloseOnSignals(option: unknown): {
  readonly signals: readonly CloseSignal[];
  readonly times: CloseTimes;
} {
  if (option === true) return { signals: SIGNALS, times: readCloseOptions({}) };
  if (!Array.isArray(option)) {
    if (typeof option !== "object" || option === null) {
      throw invalidOption(
        'closeOnSignals: must be true, a list such as ["SIGTERM"], or times such as { drain: "10s" }.',
      );
    }
    return { signals: SIGNALS, times: readCloseOptions(option as CloseOptions) };
  }
  const unknown = option.findIndex((signal) => !SIGNALS.includes(signal as CloseSignal));
  if (unknown !== -1 || option.length === 0) {
    throw invalidOption(`closeOnSignals: name one or more of ${SIGNALS.join(" and ")}.`);
  }
  return { signals: [...new Set(option as CloseSignal[])], times: readCloseOptions({}) };
}

/** On one of the signals, closes first, and then lets the process end as it would have without us. */
export function closeOnSignals(connection: Connection, signals: readonly CloseSignal[], close: Close): void {
  for (const signal of signals) LISTENERS[signal].add(close);
  connection.onFinish(() => {
    for (const signal of signals) LISTENERS[signal].remove(close);
  });
}

/**
 * One listener stands for all connections: at the eleventh, Node would warn of a leak. Handlers of the user's stay in
 * charge: only where there are none is the signal raised again, so that the process ends as it would have.
 */
class SignalListener {
  readonly #signal: CloseSignal;
  readonly #closers = new Set<Close>();
  #firstMs: number | undefined;

  constructor(signal: CloseSignal) {
    this.#signal = signal;
    Object.defineProperty(this.#onSignal, OURS, { value: true });
  }

  add(close: Close): void {
    if (this.#closers.size === 0) process.prependListener(this.#signal, this.#onSignal);
    this.#closers.add(close);
  }

  remove(close: Close): void {
    this.#closers.delete(close);
    if (this.#closers.size > 0) return;
    process.removeListener(this.#signal, this.#onSignal);
    this.#firstMs = undefined;
  }

  readonly #onSignal = (): void => {
    // Asked first, before a handler of the user's that is called once is taken off the list.
    const alone = process.listeners(this.#signal).every((listener) => OURS in listener);
    this.#firstMs ??= nowMs();
    if (alone && nowMs() - this.#firstMs > REPEATED_MS) {
      this.#raise();
      return;
    }
    for (const close of this.#closers) {
      const end = () => {
        this.remove(close);
        if (alone && process.listenerCount(this.#signal) === 0) this.#raise();
      };
      void close(this.#signal).then(end, end);
    }
  };

  #raise(): void {
    // The first process of a container has no default action for signals: nothing would happen.
    if (process.pid === 1) process.exit(EXIT_CODES[this.#signal]);
    process.removeListener(this.#signal, this.#onSignal);
    process.kill(process.pid, this.#signal);
  }
}

const LISTENERS: Readonly<Record<CloseSignal, SignalListener>> = {
  SIGTERM: new SignalListener("SIGTERM"),
  SIGINT: new SignalListener("SIGINT"),
};
