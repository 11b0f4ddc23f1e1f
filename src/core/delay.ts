import { onAbort } from "./abort.js";
import { startTimer, stopTimer } from "./timer.js";

/** Rejects with the signal's own reason when it aborts. */
export function delay(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const off =
      signal === undefined
        ? undefined
        : onAbort(signal, () => {
            stopTimer(timer);
            reject(signal.reason);
          });
    const timer = startTimer(() => {
      off?.();
      resolve();
    }, ms);
  });
}
