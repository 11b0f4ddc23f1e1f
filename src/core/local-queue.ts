import type { AcquireRequest } from "./acquire-request.js";
import { Asking, type AskingListener } from "./asking.js";
import type { Owner } from "./claim.js";
import { nowMs } from "./clock.js";
import type { Connection } from "./connection.js";
import type { LocalPosition } from "./diagnostics/timeout-error.js";
import { HeldClaim } from "./held-claim.js";
import type { KnownHere, LocalName, TaskQueue } from "./local-names.js";
import { SharedClaim, type SharedClaimTasks } from "./shared-claim.js";
import { ShortLivedSet } from "./short-lived.js";
import { startTimer, stopTimer } from "./timer.js";
import { type WaitingPlace, WaitingTask } from "./waiting-task.js";

/** Without a queue at the server, a process that has given its claim back asks again after so long, or sooner. */
const SPREAD_MS = 3;

/** Takes the idle claim of this process for a task that needs no place in the queue: for one that only tries, say. */
export function takeIdle(connection: Connection, request: AcquireRequest): HeldClaim | undefined {
  for (const queue of connection.localNames.find(request.name)?.queues ?? []) {
    if (queue instanceof LocalQueue && queue.ttlMs === request.ttlMs) return queue.takeIdle(request);
  }
  return undefined;
}

/** Where tasks wait that ask for that name with that ttl. */
export function localQueueFor(connection: Connection, { name, ttlMs }: AcquireRequest): LocalQueue {
  // The idle claim of tasks with another ttl stands in the way: its release goes before the claim.
  void connection.localNames.releaseIdle(name, ttlMs);
  const here = connection.localNames.at(name);
  for (const queue of here.queues) if (queue instanceof LocalQueue && queue.ttlMs === ttlMs) return queue;
  const queue = new LocalQueue(connection, here, ttlMs);
  here.queues.push(queue);
  return queue;
}

/**
 * The tasks of one connection that wait for one name with one ttl, in order of arrival. They are served by one claim
 * at a time, which passes from task to task without a request. When its budget is spent, the next claim takes a place
 * in the server's queue, and the held one is given back after its task: so no other process waits for long.
 */
class LocalQueue implements AskingListener, WaitingPlace, SharedClaimTasks, TaskQueue {
  readonly ttlMs: number;
  readonly #connection: Connection;
  readonly #here: LocalName;
  readonly #tasks = new ShortLivedSet<WaitingTask>();
  /** The granted claim. */
  #held: SharedClaim | undefined;
  /** The claim that asks, or waits in the server's queue. */
  #next: Asking | undefined;
  #budgetTimer: NodeJS.Timeout | undefined;
  /** It has just released, and lets other processes ask first. */
  #letsOthersAsk = false;

  constructor(connection: Connection, here: LocalName, ttlMs: number) {
    this.#connection = connection;
    this.#here = here;
    this.ttlMs = ttlMs;
  }

  takeIdle(request: AcquireRequest): HeldClaim | undefined {
    const held = this.#held;
    return held?.isIdle && held.canServe && held.resume() ? this.#hold(held, request) : undefined;
  }

  /** A task comes. */
  enter(request: AcquireRequest): Promise<HeldClaim | undefined> {
    const task = new WaitingTask(this.#connection, request, this);
    this.#tasks.add(task);
    const held = this.#held;
    if (held?.isIdle) {
      // If it is of no use any more, it is given back, and the next claim is on its way.
      if (held.resume()) this.give(held, task);
    } else if (held !== undefined) {
      task.wait();
      this.#watchBudget();
    } else if (this.#next === undefined && !this.#letsOthersAsk) {
      this.#askNext();
    } else if (this.#next?.unheard !== true) {
      task.wait();
      this.#next?.callerCame();
    }
    return task.outcome;
  }

  // The claim that asks:

  get asking(): Asking | undefined {
    return this.#next;
  }

  #askNext(): void {
    const first = this.#firstWaiting(-Infinity);
    if (first === undefined) return;
    this.#next = new Asking(this.#connection, first.request, this);
    this.#next.ask();
  }

  ownerShown({ stickyMs }: AcquireRequest): Owner {
    const { owner, stickyOwner } = this.#connection;
    const shown = stickyMs > 0 ? stickyOwner : owner;
    const tasks = this.waiting;
    return tasks > 1 ? { ...shown, tasks } : shown;
  }

  granted(asking: Asking): void {
    const { claim } = asking;
    if (!this.#connection.localNames.admit(claim.name, claim.ticket as bigint)) {
      asking.replace();
      return;
    }
    this.#next = undefined;
    // A task whose time is over is still there only because it has not been heard.
    const hears = asking.unheard || asking.outage !== undefined;
    const task = this.#firstWaiting(hears ? -Infinity : nowMs());
    if (task === undefined) {
      this.#connection.inBackground(this.#connection.withdraw(claim));
      this.#tidy();
      return;
    }
    this.#held = new SharedClaim(this.#connection, asking, this);
    this.give(this.#held, task);
    if (this.#tasks.size === 0) return;
    // The answer was a grant, and to one of them.
    if (hears) for (const waiting of [...this.#tasks]) waiting.wait();
    this.#watchBudget();
  }

  refused(): void {
    throw new Error("a task that shares its claim waits");
  }

  goesOn(asking: Asking, isNews: boolean): void {
    if (!isNews) return;
    for (const task of [...this.#tasks]) {
      if (asking.outage === undefined) task.wait();
      else task.askFailed();
    }
  }

  failed(asking: Asking, error: unknown, kept: boolean): void {
    this.#next = undefined;
    if (kept) this.#connection.inBackground(asking.withdraw());
    else this.#connection.leave(asking.claim);
    for (const task of [...this.#tasks]) {
      if (!task.isLeaving) task.fail(error);
    }
    this.#tasks.clear();
    this.#tidy();
  }

  // The tasks that wait:

  get someWait(): boolean {
    return this.#tasks.size > 0;
  }

  /** How many wait for the held claim. */
  get waitingForHeld(): number {
    return this.#next === undefined ? this.waiting : 0;
  }

  /** How many wait. */
  get waiting(): number {
    let waiting = 0;
    for (const task of this.#tasks) if (!task.isLeaving) waiting++;
    return waiting;
  }

  /** What is known of that claim here and now, if it is one of this queue. */
  knownOf(ticket: bigint): KnownHere | undefined {
    const held = this.#held;
    if (held?.claim.ticket === ticket) {
      const tasks = 1 + this.waitingForHeld;
      const { number, holder, isIdle } = held;
      return { tasks, number, isIdle, ...(holder && { note: holder.note }) };
    }
    return this.#next?.claim.ticket === ticket ? { tasks: this.waiting } : undefined;
  }

  #firstWaiting(atMs: number): WaitingTask | undefined {
    for (const task of this.#tasks) if (task.wantsGrant(atMs)) return task;
    return undefined;
  }

  positionOf(task: WaitingTask): LocalPosition | undefined {
    // Without a queue, and before its first answer, a claim has no position.
    if (this.#next !== undefined && this.#next.claim.ticket === undefined) return undefined;
    let ahead = 0;
    for (const one of this.#tasks) {
      if (one === task) break;
      if (!one.isLeaving) ahead++;
    }
    return { ahead, waiting: this.waiting + 1 };
  }

  leave(task: WaitingTask): Promise<void> | undefined {
    this.#tasks.delete(task);
    const asking = this.#next;
    if (this.#tasks.size > 0 || asking === undefined) {
      this.#tidy();
      return undefined;
    }
    this.#next = undefined;
    const withdrawal = asking.withdraw();
    this.#tidy();
    return withdrawal;
  }

  // The claim that is held:

  /** No task holds the claim that this process has: it waits for its turn of the event loop, or is idle. */
  get isBetweenTasks(): boolean {
    return this.#held?.isBetweenTasks === true;
  }

  mayServe(held: SharedClaim): boolean {
    // A single claim of this process that waits in the server's queue is next there.
    return !this.#connection.closing.aborted && !held.isSpent && this.#here.singleWaiters === 0;
  }

  nextTask(): WaitingTask | undefined {
    return this.#firstWaiting(nowMs());
  }

  budgetBegins(): void {
    if (this.#tasks.size > 0) this.#watchBudget();
  }

  give(held: SharedClaim, task: WaitingTask): void {
    this.#tasks.delete(task);
    task.grant(this.#hold(held, task.request));
  }

  #hold(held: SharedClaim, request: AcquireRequest): HeldClaim {
    return new HeldClaim(this.#connection, held.claim, request, held);
  }

  /** The claim is given back, or lost. `released` settles when the engine has heard of it. */
  ended(held: SharedClaim, released?: Promise<unknown>): void {
    if (this.#held !== held) return;
    this.#held = undefined;
    stopTimer(this.#budgetTimer);
    this.#budgetTimer = undefined;
    if (this.#tasks.size > 0 && this.#next === undefined && !this.#connection.closing.aborted) {
      if (released === undefined || this.#connection.backend.traits.queueing) this.#askNext();
      else this.#askLater(released);
    }
    this.#tidy();
  }

  /** Without a queue the first to ask wins. The processes that the release has notified ask within the same spread. */
  #askLater(released: Promise<unknown>): void {
    this.#letsOthersAsk = true;
    const ask = () => {
      this.#letsOthersAsk = false;
      if (this.#next === undefined && this.#held === undefined && !this.#connection.closing.aborted)
        this.#askNext();
      this.#tidy();
    };
    const spread = () => startTimer(ask, Math.random() * SPREAD_MS);
    released.then(spread, spread);
  }

  /** A newer grant of another claim has proved that it is gone. */
  endIdleBelow(ticket: bigint): void {
    if (this.#held?.isBetweenTasks && (this.#held.claim.ticket ?? 0n) < ticket) this.#held.end();
  }

  /** The idle claim stands in the way of another claim of this process. */
  releaseIdle(): Promise<unknown> | undefined {
    return this.#held?.isIdle ? this.#held.release() : undefined;
  }

  /** A task waits behind a held claim: when its budget is spent, the next claim takes a place in the server's queue. */
  #watchBudget(): void {
    const held = this.#held;
    // Without a queue there is no place to take.
    if (this.#next !== undefined || held === undefined || !this.#connection.backend.traits.queueing) return;
    if (held.isSpent) {
      this.#askNext();
      return;
    }
    if (this.#budgetTimer !== undefined || held.budgetEndsAtMs === Infinity) return;
    this.#budgetTimer = startTimer(() => {
      this.#budgetTimer = undefined;
      // A timer may be early, and the budget may have begun later than it seemed.
      if (this.#held === held && this.#tasks.size > 0) this.#watchBudget();
    }, held.budgetEndsAtMs - nowMs()).unref();
  }

  #tidy(): void {
    if (this.#tasks.size > 0 || this.#held !== undefined || this.#next !== undefined || this.#letsOthersAsk)
      return;
    const { queues } = this.#here;
    const index = queues.indexOf(this);
    // The last task of a queue that was removed before: by now the name may belong to other tasks.
    if (index === -1) return;
    queues.splice(index, 1);
    this.#connection.localNames.tidy(this.#here);
  }
}
