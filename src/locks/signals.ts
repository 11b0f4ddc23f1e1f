import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { invalidOption } from "../core/errors.js";
import { type CloseOptions, type CloseTimes, readCloseOptions } from "./close.js";

/** The signals that ask a program to end. */
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
