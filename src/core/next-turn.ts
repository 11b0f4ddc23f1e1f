import { stat } from "node:fs";
import { setImmediate } from "node:timers";

/**
 * Test tools replace timers by fake ones that stand still until a test moves them. What waits here has nothing to do
 * with time, so it takes the real one: the import keeps it, unless the tool was faster than the import. Then the
 * answer of the file system, which comes in a later turn as well, takes its place.
 */
const isFake = "clock" in setImmediate;

/** Resolves in a later turn of the event loop, when the callbacks and promises of this one have run. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (isFake) stat(".", () => resolve());
    else setImmediate(resolve);
  });
}
