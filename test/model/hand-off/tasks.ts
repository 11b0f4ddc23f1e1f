import type { Lease } from "#lib/core/lease.js";
import type { AcquireOptions } from "#lib/core/options.js";
import type { Locks } from "#lib/locks/locks.js";
import type { Rules } from "./rules.js";
import type { Task } from "./told.js";
import type { Machine } from "./world.js";

export interface Process {
  readonly machine: Machine;
  readonly locks: Locks;
}

/** What a task asks for, and what it does with it. */
export interface TaskPlan {
  readonly id: number;
  readonly name: string;
  readonly ttlMs: number;
  /** 0: it only tries. */
  readonly waitMs: number;
  readonly cancelAfterMs: number | undefined;
  readonly maxHoldMs: number;
  readonly note: string | undefined;
  readonly fixed: boolean;
  readonly fair: boolean;
  readonly stickyMs: number | undefined;
  readonly way: "run" | "acquire";
  readonly holdMs: number;
  /** It keeps the event loop for so long. */
  readonly blockMs: number;
  /** It does not stop when it loses its lease. */
  readonly stubborn: boolean;
  readonly updates: boolean;
  readonly throws: boolean;
  /** It takes another lock while it holds this one. */
  readonly nests: boolean;
  /** It enters the same lock again, and what it does there ends later than itself. */
  readonly reenters: boolean;
  /** After its release, tasks that wait are cancelled in the same turn. */
  readonly cancelsNext: boolean;
}

const controllers = new WeakMap<Task, AbortController>();

function cancel(rules: Rules, task: Task): void {
  if (task.isOver || task.cancelledAt !== undefined) return;
  const controller = controllers.get(task);
  if (controller === undefined) return;
  rules.note(`P${task.machine.id} t${task.id} is cancelled`);
  task.cancelledAt = rules.steps;
  controller.abort(new Error(`t${task.id} was cancelled`));
}

function newTask(rules: Rules, machine: Machine, plan: TaskPlan, mayShare: boolean, shares: boolean): Task {
  const controller = plan.waitMs === 0 ? undefined : new AbortController();
  const task: Task = {
    id: plan.id,
    machine,
    name: plan.name,
    ttlMs: plan.ttlMs,
    maxHoldMs: plan.maxHoldMs,
    waitMs: plan.waitMs,
    shares,
    mayShare,
    signal: controller?.signal,
    cameMs: machine.localMs,
    cancelledAt: undefined,
    isOver: false,
  };
  if (controller !== undefined) controllers.set(task, controller);
  rules.tasks.add(task);
  rules.note(`P${machine.id} t${task.id} comes to ${task.name} ${shares ? "" : "alone"} ${plan.waitMs}`);
  return task;
}

export function startTask(rules: Rules, process: Process, plan: TaskPlan): void {
  if (process.machine.isDead) return;
  void new Doing(rules, process, plan).all();
}

function after(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

class Doing {
  readonly #task: Task;

  constructor(
    readonly rules: Rules,
    readonly process: Process,
    readonly plan: TaskPlan,
    holdsMore = false,
  ) {
    const { waitMs, fixed, fair } = plan;
    const mayShare = waitMs > 0 && !fixed && !fair;
    this.#task = newTask(rules, process.machine, plan, mayShare, mayShare && !holdsMore);
  }

  async all(): Promise<void> {
    const { plan, rules } = this;
    const task = this.#task;
    const { machine } = task;
    if (plan.cancelAfterMs !== undefined)
      rules.world.at(machine.atMs + plan.cancelAfterMs, () => cancel(rules, task), machine);
    try {
      await this.#take();
    } catch (error) {
      if (task.lease === undefined) rules.rejected(task, error);
      else if ((error as Error).message !== "thrown") {
        const { code } = error as { code?: string };
        if (code !== "lost") rules.broken(`t${task.id}: ${(error as Error).stack}`);
      }
    }
    task.isOver = true;
  }

  async #take(): Promise<void> {
    const { plan, rules } = this;
    const { name, ttlMs, waitMs, maxHoldMs, note, fixed, fair, stickyMs } = plan;
    const sticky = stickyMs === undefined || fair ? {} : { sticky: stickyMs };
    const mutex = this.process.locks.mutex(name, { fair, ...sticky });
    const options: AcquireOptions = {
      ttl: ttlMs,
      maxHold: fixed ? undefined : maxHoldMs,
      note,
      renew: !fixed,
      ...(waitMs === 0 ? {} : { wait: waitMs, signal: this.#task.signal }),
    };
    if (waitMs === 0) {
      const lease = await mutex.tryAcquire(options);
      if (lease === null) rules.refused(this.#task);
      else await this.#holdAndRelease(lease);
    } else if (plan.way === "run") {
      await mutex.run(options, (lease) => this.#hold(lease));
      this.#cancelNext();
    } else await this.#holdAndRelease(await mutex.acquire(options));
  }

  async #holdAndRelease(lease: Lease): Promise<void> {
    try {
      await this.#hold(lease);
    } finally {
      const released = lease.release();
      this.rules.note(`P${this.#task.machine.id} t${this.plan.id} leaves`);
      this.#cancelNext();
      await released.catch(() => false);
    }
  }

  async #hold(lease: Lease): Promise<void> {
    const { plan, rules } = this;
    const task = this.#task;
    rules.granted(task, lease);
    const told = new Promise<void>((resolve) => {
      const tell = () => {
        rules.lost(task, lease.signal.reason);
        resolve();
      };
      if (lease.signal.aborted) tell();
      else lease.signal.addEventListener("abort", tell);
    });
    if (plan.updates) void lease.update({ note: `update ${plan.id}` }).catch(() => undefined);
    if (plan.blockMs > 0) task.machine.block(plan.blockMs);
    if (plan.reenters && plan.way === "run" && plan.waitMs > 0) this.#reenter(lease);
    if (plan.holdMs > 0)
      await (plan.stubborn ? after(plan.holdMs) : Promise.race([after(plan.holdMs), told]));
    if (plan.nests && plan.way === "run" && plan.waitMs > 0) await this.#nest();
    if (plan.throws) throw new Error("thrown");
  }

  #reenter(lease: Lease): void {
    const { name } = this.plan;
    const { locks } = this.process;
    const again = locks.mutex(name).run({ within: lease }, () => after(5));
    again.catch(() => undefined);
  }

  async #nest(): Promise<void> {
    const { plan, rules } = this;
    const name = plan.name === "a" ? "b" : "a";
    const inner: TaskPlan = {
      ...plan,
      id: plan.id + 0.5,
      name,
      waitMs: 100,
      holdMs: 1,
      nests: false,
      throws: false,
    };
    await new Doing(rules, this.process, { ...inner, cancelAfterMs: undefined, reenters: false }, true).all();
  }

  /** At a moment between the hand-off and the turn of the task that was granted, too. */
  #cancelNext(): void {
    const { plan, rules } = this;
    if (!plan.cancelsNext) return;
    const { machine, name } = this.#task;
    for (const other of rules.tasks) {
      if (other.machine !== machine || other.name !== name || other.isOver || other.lease) continue;
      cancel(rules, other);
      return;
    }
  }
}
