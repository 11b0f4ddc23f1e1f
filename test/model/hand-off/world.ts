import { AsyncLocalStorage } from "node:async_hooks";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";

// Time that stands still until the next event, for several processes of which each has a clock of its own. The real
// code runs on it: its clock, its timers and its random numbers come from here.

const storage = new AsyncLocalStorage<Machine>();
let current: World | undefined;

/** A process: its clock runs a little faster or slower than that of the engine, and it may stand still. */
export class Machine {
  /** It runs nothing before that time. */
  busyUntilMs = 0;
  isDead = false;
  /** What arrived while it stood still is read before its timers run, or after that. */
  readsFirst = false;
  /** When its last request arrives: requests that nothing delays arrive in order. */
  lastArrivalMs = 0;

  constructor(
    readonly world: World,
    readonly id: number,
    readonly rate: number,
  ) {}

  /** Its place in true time. */
  get atMs(): number {
    return Math.max(this.world.nowMs, this.busyUntilMs);
  }

  /** What its own clock says. */
  get localMs(): number {
    return this.atMs * this.rate;
  }

  /** It does something else for so long, or is stopped. */
  block(forMs: number): void {
    this.busyUntilMs = this.atMs + forMs;
    this.readsFirst = this.world.chance(0.5);
  }

  run<T>(act: () => T): T {
    return storage.run(this, act);
  }
}

interface Event {
  atMs: number;
  order: number;
  readonly machine: Machine | undefined;
  readonly isTimer: boolean;
  readonly act: () => void;
  isOff: boolean;
}

class Timer {
  constructor(readonly event: Event) {}

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }
}

export class World {
  nowMs = 0;
  /** How likely a process is stopped whenever it looks at its clock, and for how long at most. */
  stops = { chance: 0, mostMs: 0 };
  /** Whether a timer may fire up to a millisecond early. */
  earlyTimers = true;
  isLooking = false;
  readonly #events: Event[] = [];
  #lastOrder = 0;

  constructor(readonly random: () => number) {}

  chance(probability: number): boolean {
    return probability > 0 && this.random() < probability;
  }

  between(least: number, most: number): number {
    return least + this.random() * (most - least);
  }

  at(atMs: number, act: () => void, machine?: Machine, isTimer = false): Event {
    const event = { atMs, order: ++this.#lastOrder, machine, isTimer, act, isOff: false };
    this.#insert(event);
    return event;
  }

  /** Looks without being stopped, and without changing what happens. */
  look<T>(machine: Machine, act: () => T): T {
    this.isLooking = true;
    try {
      return machine.run(act);
    } finally {
      this.isLooking = false;
    }
  }

  /** What this machine is told as the time. */
  clockOf(machine: Machine): number {
    const { chance, mostMs } = this.stops;
    if (!this.isLooking && this.chance(chance)) machine.block(this.between(1, mostMs));
    return machine.localMs;
  }

  startTimer(machine: Machine, act: () => void, delayMs: number): Timer {
    const earlyMs = this.earlyTimers && this.chance(0.1) ? this.random() : 0;
    const dueMs = machine.atMs + Math.max(0, delayMs / machine.rate - earlyMs);
    return new Timer(this.at(dueMs, act, machine, true));
  }

  /** The next event. `false`: there is none until then. */
  async step(untilMs: number): Promise<boolean> {
    for (let event = this.#events[0]; event !== undefined; event = this.#events[0]) {
      if (event.atMs > untilMs) return false;
      this.#events.shift();
      const { machine } = event;
      if (event.isOff || machine?.isDead) continue;
      if (machine !== undefined && machine.busyUntilMs > event.atMs) {
        event.atMs = machine.busyUntilMs;
        event.order += event.isTimer === machine.readsFirst ? 1e6 : 0;
        this.#insert(event);
        continue;
      }
      this.nowMs = Math.max(this.nowMs, event.atMs);
      const busyMs = machine?.busyUntilMs;
      if (machine === undefined) event.act();
      else machine.run(event.act);
      await turn();
      // Work that went on for long is continued in the next turn.
      if (machine?.busyUntilMs !== busyMs) for (let turns = 0; turns < 3; turns++) await turn();
      return true;
    }
    return false;
  }

  #insert(event: Event): void {
    let [low, high] = [0, this.#events.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#events[middle] as Event;
      if (other.atMs < event.atMs || (other.atMs === event.atMs && other.order < event.order))
        low = middle + 1;
      else high = middle;
    }
    this.#events.splice(low, 0, event);
  }
}

const { setImmediate } = globalThis;

function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** From now on the code gets its time from the world that `enter` names. */
export function install(): void {
  const real = {
    now: performance.now.bind(performance),
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
    random: Math.random,
    uptime: os.uptime,
  };
  const here = () => (current === undefined ? undefined : storage.getStore());
  performance.now = () => {
    const machine = here();
    return machine === undefined ? real.now() : machine.world.clockOf(machine);
  };
  os.uptime = () => (here()?.localMs ?? real.uptime() * 1_000) / 1_000;
  syncBuiltinESMExports();
  Math.random = () => (current === undefined ? real.random() : current.random());
  globalThis.setTimeout = ((act: () => void, delayMs = 0, ...rest: []) => {
    const machine = here();
    return machine === undefined
      ? real.setTimeout(act, delayMs, ...rest)
      : machine.world.startTimer(machine, act, delayMs);
  }) as typeof setTimeout;
  globalThis.clearTimeout = ((timer: NodeJS.Timeout | Timer | undefined) => {
    if (timer instanceof Timer) timer.event.isOff = true;
    else real.clearTimeout(timer);
  }) as typeof clearTimeout;
}

export function enter(world: World | undefined): void {
  current = world;
}
