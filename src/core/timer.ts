import { stat } from "node:fs";
import { setImmediate } from "node:timers";
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

/** Ends a timer of `startTimer` or `startInterval`; one that is not there is none to end. */
export function stopTimer(timer: NodeJS.Timeout | undefined): void {
  clearTimeout(timer);
  if (pending !== undefined && timer !== undefined) pending.delete(timer);
}

/** The same, again and again. */
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
