interface Listener {
  readonly callbacks: Set<() => void>;
  readonly onEvent: () => void;
}

/** One listener per signal, however many wait for it: Node warns of a leak from the eleventh on. */
const listeners = new WeakMap<AbortSignal, Listener>();

/** Calls back once when the signal aborts; the answer ends that. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const listener = listeners.get(signal) ?? listenTo(signal);
  const { callbacks, onEvent } = listener;
  callbacks.add(callback);
  return () => {
    callbacks.delete(callback);
    if (callbacks.size > 0 || listeners.get(signal) !== listener) return;
    // A signal that is made of others is kept in memory for as long as it has a listener.
    signal.removeEventListener("abort", onEvent);
    listeners.delete(signal);
  };
}

function listenTo(signal: AbortSignal): Listener {
  const callbacks = new Set<() => void>();
  const onEvent = () => {
    for (const call of [...callbacks]) call();
  };
  signal.addEventListener("abort", onEvent, { once: true });
  const listener = { callbacks, onEvent };
  listeners.set(signal, listener);
  return listener;
}

/**
 * Aborts as the first of several signals does. Of an `AbortSignal.any` each of them would keep a trace for as long as
 * it lives, and it would never be forgotten itself while it has a listener.
 */
export class FirstAbort {
  readonly #controller = new AbortController();
  readonly #offs: (() => void)[] = [];

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  add(signal: AbortSignal): void {
    const abort = () => this.#controller.abort(signal.reason);
    if (signal.aborted) abort();
    else this.#offs.push(onAbort(signal, abort));
  }

  /** From now on it listens to none of them. */
  end(): void {
    for (const off of this.#offs) off();
  }
}
