import type { Traits } from "#lib/core/backend.js";
import { createLocks, Locks } from "#lib/locks/locks.js";
import { seededRandom } from "#lib/testing/history-records.js";
import { type Network, Server } from "./engine.js";
import { Rules } from "./rules.js";
import { type Process, startTask, type TaskPlan } from "./tasks.js";
import { enter, Machine, World } from "./world.js";

/** What can happen in a run. */
export interface Profile {
  /** Messages are lost and late, processes stop and crash, and claims are taken away. */
  readonly faults: boolean;
  /** A process may also be stopped whenever it looks at its clock. */
  readonly stopsAnywhere: boolean;
  readonly queueing: boolean;
  /** How likely a task asks for a sticky mutex. */
  readonly sticky: number;
  readonly tasks?: number;
}

const TTLS_MS = [300, 600, 900];
/** From then on nothing is lost any more. */
const FAULTS_UNTIL_MS = 3_000;
const LONGEST_MS = 300_000;
const QUIET: Network = { lostRequest: 0, lostAnswer: 0, lostNotification: 0, late: 0, timeoutMs: 200 };

const TRAITS: Traits = {
  engine: "model",
  reach: "network",
  fencing: true,
  queueing: true,
  notifications: true,
  tellsHolder: true,
  ttl: "claim",
  expiryGranularityMs: 0,
  caveats: [],
};

class Run {
  readonly world: World;
  readonly rules: Rules;
  readonly server: Server;
  readonly processes: Process[] = [];
  readonly #ttlMs: number;
  readonly #closes: Promise<unknown>[] = [];
  #lastMachine = 0;

  constructor(
    readonly seed: number,
    readonly profile: Profile,
  ) {
    const random = seededRandom(seed);
    const world = new World(random);
    this.world = world;
    this.rules = new Rules(world, !profile.faults, profile.stopsAnywhere);
    this.#ttlMs = this.#one(TTLS_MS);
    const ttl = profile.faults && world.chance(0.2) ? "session" : "claim";
    const traits = { ...TRAITS, queueing: profile.queueing, ttl } as const;
    this.server = new Server(world, this.#ttlMs, this.#network(), traits, this.rules);
    this.rules.server = this.server;
    if (profile.stopsAnywhere) world.stops = { chance: 0.002, mostMs: this.#ttlMs * 1.5 };
  }

  #one<T>(list: readonly T[]): T {
    return list[Math.floor(this.world.random() * list.length)] as T;
  }

  #network(): Network {
    const { world } = this;
    if (!this.profile.faults) return QUIET;
    const some = (most: number) => (world.chance(0.5) ? world.random() * most : 0);
    return {
      lostRequest: some(0.1),
      lostAnswer: some(0.1),
      lostNotification: some(0.5),
      late: some(0.1),
      timeoutMs: this.#ttlMs * this.#one([0.4, 0.8, 1.5]),
    };
  }

  #newProcess(): Process {
    const { world, server, rules } = this;
    const machine = new Machine(world, ++this.#lastMachine, 1 + world.between(-0.004, 0.004));
    machine.busyUntilMs = 0;
    const locks = machine.run(() => createLocks(server.backendFor(machine), { ttl: this.#ttlMs }));
    rules.processes.set(machine, Locks.connectionOf(locks));
    return { machine, locks };
  }

  #plan(id: number): TaskPlan {
    const { world, profile } = this;
    const ttlMs = this.#ttlMs;
    const { chance } = world;
    const sometimes = (probability: number) => chance.call(world, probability);
    const holdMs = sometimes(0.4) ? 0 : sometimes(0.7) ? world.between(0, 20) : world.between(20, 150);
    const isLong = profile.faults && sometimes(0.05);
    return {
      id,
      name: sometimes(0.85) ? "a" : "b",
      ttlMs: sometimes(0.9) ? ttlMs : ttlMs / 2,
      waitMs: sometimes(0.1) ? 0 : sometimes(0.3) ? world.between(1, 400) : Infinity,
      cancelAfterMs: sometimes(0.1) ? world.between(0, 300) : undefined,
      maxHoldMs: sometimes(0.15) ? world.between(ttlMs, ttlMs * 1.5) : Infinity,
      note: sometimes(0.3) ? `note ${id}` : undefined,
      fixed: sometimes(0.06),
      fair: profile.queueing && sometimes(0.06),
      stickyMs: sometimes(profile.sticky) ? world.between(1, ttlMs / 2) : undefined,
      way: world.random() < 0.5 ? "run" : "acquire",
      holdMs: isLong ? ttlMs * world.between(0.9, 1.7) : holdMs,
      blockMs: sometimes(0.15) ? world.between(0, 15) : isLong && sometimes(0.5) ? ttlMs * 1.2 : 0,
      stubborn: sometimes(0.3),
      updates: sometimes(0.1),
      throws: sometimes(0.1),
      nests: sometimes(0.1),
      reenters: sometimes(0.1),
      cancelsNext: sometimes(0.1),
    };
  }

  start(): void {
    const { world, profile } = this;
    const count = 2 + Math.floor(world.random() * 3);
    for (let index = 0; index < count; index++) this.processes.push(this.#newProcess());
    const tasks = profile.tasks ?? 24 + Math.floor(world.random() * 27);
    const spanMs = this.#one([0, 200, 1_000, 2_500]);
    for (let id = 1; id <= tasks; id++) {
      const atMs = world.random() * spanMs;
      const index = Math.floor(world.random() * count);
      const plan = profile.tasks === undefined ? this.#plan(id) : { ...this.#plan(id), ...CROWD };
      const burst = profile.tasks === undefined ? atMs : 0;
      world.at(burst, () => this.#begin(plan, profile.tasks === undefined ? index : 0));
    }
    if (!profile.faults) return;
    const times = (most: number) => Math.floor(world.random() * (most + 1));
    const when = () => world.random() * FAULTS_UNTIL_MS;
    const at = () => this.#one(this.processes);
    const stopMs = () => this.#ttlMs * world.between(0.1, 1.6);
    for (let stops = times(5); stops > 0; stops--) world.at(when(), () => at().machine.block(stopMs()));
    for (let forces = times(3); forces > 0; forces--) world.at(when(), () => this.server.force(this.#name()));
    for (let losses = times(1); losses > 0; losses--)
      world.at(when(), () => this.server.forget(this.#name()));
    for (let crashes = times(1); crashes > 0; crashes--) world.at(when(), () => this.#crash());
    for (let closes = times(1); closes > 0; closes--) world.at(when(), () => this.#close());
    for (let outages = times(2); outages > 0; outages--)
      world.at(when(), () => this.server.goAway(this.#ttlMs * world.between(0.1, 1.2)));
    world.at(FAULTS_UNTIL_MS, () => {
      this.server.network = { ...QUIET, timeoutMs: this.server.network.timeoutMs };
    });
  }

  #name(): string {
    return this.world.chance(0.8) ? "a" : "b";
  }

  #begin(plan: TaskPlan, index: number): void {
    const process = this.processes[index] as Process;
    this.world.at(this.world.nowMs, () => startTask(this.rules, process, plan), process.machine);
  }

  #replace(act: (old: Process) => void): void {
    const index = Math.floor(this.world.random() * this.processes.length);
    const old = this.processes[index] as Process;
    this.processes[index] = this.#newProcess();
    act(old);
  }

  #crash(): void {
    this.#replace(({ machine }) => {
      this.rules.note(`P${machine.id} crashes`);
      machine.isDead = true;
    });
  }

  #close(): void {
    this.#replace((old) => this.#closes.push(this.#closed(old)));
  }

  #closed({ machine, locks }: Process): Promise<void> {
    this.rules.note(`P${machine.id} closes`);
    return machine.run(() => locks.close({ drain: 50, abort: 20 }));
  }

  async toTheEnd(): Promise<void> {
    const { world, rules } = this;
    const isOver = () =>
      world.nowMs > FAULTS_UNTIL_MS && [...rules.tasks].every((task) => task.isOver || task.machine.isDead);
    let untilMs = LONGEST_MS;
    while (await world.step(untilMs)) {
      rules.check();
      if (untilMs === LONGEST_MS && isOver()) untilMs = world.nowMs + this.#ttlMs * 5 + 1_000;
    }
    world.nowMs = Math.max(world.nowMs, FAULTS_UNTIL_MS) + this.#ttlMs * 3;
    rules.checkEnd();
    for (const process of this.processes) this.#closes.push(this.#closed(process));
    let closed = false;
    void Promise.all(this.#closes).then(() => {
      closed = true;
    });
    untilMs = world.nowMs + 60_000;
    while (!closed && (await world.step(untilMs)));
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    if (rules.failure !== undefined) throw rules.failure;
    if (!closed) rules.broken("a connection was never closed");
  }
}

/** Tasks that come at once and hold for no time: one process serves more than one claim has numbers for. */
const CROWD: Partial<TaskPlan> = {
  name: "a",
  waitMs: Infinity,
  cancelAfterMs: undefined,
  maxHoldMs: Infinity,
  fixed: false,
  fair: false,
  holdMs: 0,
  blockMs: 0,
  nests: false,
  reenters: false,
  cancelsNext: false,
  updates: false,
};

/** How often what the rules are about has happened. */
export interface Seen {
  readonly handOffs: number;
  readonly idle: number;
  readonly steps: number;
}

export async function runModel(seed: number, profile: Profile): Promise<Seen> {
  const run = new Run(seed, profile);
  enter(run.world);
  try {
    run.start();
    await run.toTheEnd();
    const { handOffs, idleUses: idle, steps } = run.rules;
    return { handOffs, idle, steps };
  } catch (error) {
    throw new Error(`seed ${seed}: ${(error as Error).message}`);
  } finally {
    enter(undefined);
  }
}
