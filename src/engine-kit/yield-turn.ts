import { nowMs } from "../core/clock.js";
import { nextTurn } from "../core/timer.js";

/** For how long steps may follow one another without timers and sockets getting their turn. */
const LONGEST_TURN_MS = 10;

let turnSinceMs: number | undefined;
let yielding: Promise<void> | undefined;

/**
 * An engine inside this process answers before the event loop turns: a loop of locks would keep every timer
 * from running, also those that renew. So a claim that asks when a turn has lasted for too long waits for the
 * next one, and all claims that follow meanwhile wait with it, so that none overtakes another.
 */
export function yieldTurn(): Promise<void> | undefined {
  if (yielding !== undefined) return yielding;
  if (turnSinceMs === undefined) {
    turnSinceMs = nowMs();
    void nextTurn().then(() => {
      turnSinceMs = undefined;
    });
  } else if (nowMs() - turnSinceMs >= LONGEST_TURN_MS) {
    yielding = nextTurn().then(() => {
      yielding = undefined;
    });
  }
  return yielding;
}
