import { uptime } from "node:os";

/**
 * Our own clock: it only runs forward, wall-clock changes do not touch it, and it runs on while the
 * process is stopped. Looked up at each call, so that fake timers work.
 */
export function nowMs(): number {
  return performance.now() + movedMs;
}

let movedMs = 0;

/** For tests that let time pass without waiting, and for nothing else. */
export function moveClock(byMs: number): void {
  movedMs += byMs;
}

/** Sleeps shorter than this are not told apart from the coarseness of `os.uptime()`. */
const SHORTEST_SLEEP_MS = 1_000;
/** Falling asleep and waking up again takes a machine longer than this, also by its monotonic clock. */
const FASTEST_SLEEP_MS = 5;

let awakeOffsetMs = uptime() * 1_000 - nowMs();
let lastMs = nowMs();
let slept = 0;
let jumped = 0;

/**
 * How long the machine has slept since we started, as far as it has been looked at: the monotonic clock
 * stands still in a sleep, `os.uptime()` does not. It may only end trust, so it never goes back.
 */
export function lookForSleepMs(monotonicMs = nowMs()): number {
  // The uptime costs a system call or three: a caller that asks for many locks in a row pays for it once.
  if (monotonicMs >= lastMs && monotonicMs < lastMs + FASTEST_SLEEP_MS) return slept;
  const offsetMs = uptime() * 1_000 - monotonicMs;
  const gapMs = offsetMs - awakeOffsetMs;
  // A clock that runs backwards or ahead of the uptime has been replaced (by fake timers, and back).
  const replaced = monotonicMs < lastMs || gapMs <= -SHORTEST_SLEEP_MS;
  if (!replaced && gapMs >= SHORTEST_SLEEP_MS) slept += gapMs;
  if (replaced) jumped -= gapMs;
  if (replaced || gapMs >= SHORTEST_SLEEP_MS) awakeOffsetMs = offsetMs;
  lastMs = monotonicMs;
  return slept;
}

/**
 * Our own clock without its jumps: it does not run ahead of the uptime, by more than a second, also if fake timers
 * move the clock of this process. What other processes see of it must not depend on them.
 */
export function steadyMs(): number {
  const atMs = nowMs();
  lookForSleepMs(atMs);
  return atMs - jumped;
}

/** What `lookForSleepMs` last found, without a system call. */
export function knownSleepMs(): number {
  return slept;
}

/** Since then, in microseconds at the finest: what is shown to people and written to logs. */
export function elapsedMs(sinceMs: number): number {
  return Math.round((nowMs() - sinceMs) * 1_000) / 1_000;
}

/** A timer this much too late means that the process did not run. */
const LATE_MS = 200;

/** Whether that time has passed unnoticed: the process was stopped, or its event loop was blocked. */
export function wasFrozen(dueMs: number): boolean {
  return nowMs() - dueMs > LATE_MS;
}

/**
 * Whether there is time to repeat a request that has failed: it has not taken long, or this process was frozen, and
 * nothing else was too slow.
 */
export function isTimeToRepeat(startMs: number, timeoutMs: number): boolean {
  return nowMs() < startMs + timeoutMs / 2 || wasFrozen(startMs + timeoutMs);
}

/** The moment at which a request is sent: all that its answer promises counts from here. */
export interface Sent {
  readonly atMs: number;
  readonly sleptMs: number;
}

export function sendingNow(): Sent {
  // Looked for now, or the answer would be held to be older than a sleep that was over by then.
  const atMs = nowMs();
  return { sleptMs: lookForSleepMs(atMs), atMs };
}

/** What is left of a time that counts from a sending; a sleep of the machine since then is part of it. */
export function restMs(sent: Sent, lengthMs: number): number {
  const atMs = nowMs();
  return Math.max(0, sent.atMs + lengthMs - atMs - (lookForSleepMs(atMs) - sent.sleptMs));
}

/**
 * What is taken off every time to live, because the engine's clock and ours may run at different speeds
 * and because telling a holder takes a moment.
 */
export function driftMs(ttlMs: number): number {
  return ttlMs * 0.01 + 2;
}
