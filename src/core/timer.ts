import { nowMs } from "./clock.js";

/** Timers of Node overflow past this and would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

interface Pending {
  readonly timer: NodeJS.Timeout;
  readonly dueMs: number;
  readonly fire: () => void;
}

/** Kept only where a test moves the clock. */
let pending: Map<NodeJS.Timeout, Pending> | undefined;

/**
 * What Node can wait for. A computed duration may be past already, or end in "never"; Node prints a warning
 * about both. A fraction is rounded up, because Node cuts it off: its owner would wake up before its time.
 */
function clamp(ms: number): number {
  return ms > 0 ? Math.min(Math.ceil(ms), LONGEST_TIMER_MS) : 0;
}

/** The only place where a duration becomes a timer. Looked up at each call, so that fake timers work. */
export function startTimer(act: () => unknown, delayMs: number): NodeJS.Timeout {
  if (pending !== undefined) return startKept(pending, act, clamp(delayMs));
  return setTimeout(act, clamp(delayMs));
}

export function stopTimer(timer: NodeJS.Timeout | undefined): void {
  clearTimeout(timer);
  if (pending !== undefined && timer !== undefined) pending.delete(timer);
}

export function startInterval(act: () => unknown, everyMs: number): NodeJS.Timeout {
  return setInterval(act, clamp(everyMs));
}

function startKept(kept: Map<NodeJS.Timeout, Pending>, act: () => unknown, delayMs: number): NodeJS.Timeout {
  const fire = () => {
    stopTimer(timer);
    act();
  };
  const timer = setTimeout(fire, delayMs);
  kept.set(timer, { timer, fire, dueMs: nowMs() + delayMs });
  return timer;
}

/** From now on timers can be found by `nextTimer`. For tests that move the clock, and for nothing else. */
export function keepTimers(): void {
  pending ??= new Map();
}

/** The timer that is due first, if it is due by then. */
export function nextTimer(untilMs: number): Pick<Pending, "dueMs" | "fire"> | undefined {
  let first: Pending | undefined;
  for (const one of pending?.values() ?? []) {
    if (one.dueMs <= untilMs && (first === undefined || one.dueMs < first.dueMs)) first = one;
  }
  return first;
}
