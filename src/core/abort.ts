/** One listener per signal, however many wait for it: Node warns of a leak from the eleventh on. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back once when the signal aborts; the answer ends that. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const known = listeners.get(signal);
  const callbacks = known ?? new Set();
  callbacks.add(callback);
  if (known === undefined) {
    listeners.set(signal, callbacks);
    const onEvent = () => {
      for (const call of [...callbacks]) call();
    };
    signal.addEventListener("abort", onEvent, { once: true });
  }
  return () => void callbacks.delete(callback);
}
