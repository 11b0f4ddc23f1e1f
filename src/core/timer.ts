/** Timers of Node overflow past this and would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * What Node can wait for. A computed duration may be past already, or end in "never"; Node prints a warning
 * about both. A fraction is rounded up, because Node cuts it off: its owner would wake up before its time.
 */
function clamp(ms: number): number {
  return ms > 0 ? Math.min(Math.ceil(ms), LONGEST_TIMER_MS) : 0;
}

/** The only place where a duration becomes a timer. Looked up at each call, so that fake timers work. */
export function startTimer(act: () => unknown, delayMs: number): NodeJS.Timeout {
  return setTimeout(act, clamp(delayMs));
}

export function startInterval(act: () => unknown, everyMs: number): NodeJS.Timeout {
  return setInterval(act, clamp(everyMs));
}
