import type { Asking } from "./asking.js";
import type { Owner } from "./claim.js";
import type { ClaimState, HolderListener } from "./claim-state.js";
import { nowMs } from "./clock.js";
import type { Connection } from "./connection.js";
import type { HeldClaim, Sharing } from "./held-claim.js";
import { startTimer, stopTimer, yieldTurn } from "./timer.js";
import type { WaitingTask } from "./waiting-task.js";

/** For how long one claim may serve the tasks of a process, however many processes wait; or a third of its ttl. */
const BUDGET_MS = 100;
/** Tokens are `ticket × 1024 + number`: one more would be the first token of the next ticket. */
const LAST_NUMBER = 1_023;
/** A task that has held for so long is shown to others with its own note and token. */
const SHOWN_AFTER_MS = 1_000;

/** The tasks that a claim serves. */
export interface SharedClaimTasks {
  /** How many wait for this claim, and for no next one. */
  readonly waitingForHeld: number;
  readonly someWait: boolean;
  /** Whether the claim may serve another task, or stay for one. */
  mayServe(claim: SharedClaim): boolean;
  /** The task that is served next. */
  nextTask(): WaitingTask | undefined;
  give(claim: SharedClaim, task: WaitingTask): void;
  /** From now on the claim has a budget. */
  budgetBegins(): void;
  /** The claim is given back, or lost. `released` settles when the engine has heard of it. */
  ended(claim: SharedClaim, released?: Promise<unknown>): void;
}

/**
 * A granted claim that serves the tasks of one process, one after the other. It passes from a task that ends to the
 * next one without a request; it never lives longer by that: how long it is trusted is what the engine has last said.
 */
export class SharedClaim implements HolderListener, Sharing {
  /** The hand-off number: of the task that holds, or was the last to hold. */
  number = 0;
  budgetEndsAtMs: number;
  readonly grantedAtMs = nowMs();
  readonly claim: ClaimState;
  readonly #connection: Connection;
  readonly #tasks: SharedClaimTasks;
  #holder: HeldClaim | undefined;
  #hasEnded = false;
  /** The engine has told since the grant when another process wants it, and none does yet. */
  #mayStay: boolean;
  /** Runs while no task needs the claim. */
  #idleTimer: NodeJS.Timeout | undefined;
  /** What other processes see of it. */
  #shown: { readonly note: string; readonly number: number };
  #showTimer: NodeJS.Timeout | undefined;

  constructor(connection: Connection, { claim, request, tellsFromStart }: Asking, tasks: SharedClaimTasks) {
    this.#connection = connection;
    this.claim = claim;
    this.#tasks = tasks;
    this.#shown = { note: request.note, number: 0 };
    this.#mayStay = tellsFromStart && !claim.wanted;
    // As long as no other process wants a sticky claim, it needs no budget.
    this.budgetEndsAtMs = this.#mayStay ? Infinity : this.grantedAtMs + this.#budgetMs;
  }

  get #budgetMs(): number {
    return Math.min(BUDGET_MS, this.claim.ttlMs / 3);
  }

  /** It is passed on to no other task. */
  get isSpent(): boolean {
    return this.number >= LAST_NUMBER || nowMs() >= this.budgetEndsAtMs;
  }

  get isBetweenTasks(): boolean {
    return !this.#hasEnded && this.#holder === undefined;
  }

  /** No task needs it, and it stays for a while. */
  get isIdle(): boolean {
    return !this.#hasEnded && this.#idleTimer !== undefined;
  }

  get holder(): HeldClaim | undefined {
    return this.#holder;
  }

  /** A task holds it from now on. */
  heldBy(holder: HeldClaim): void {
    this.#holder = holder;
    if (!this.#isShown(holder)) this.#showLater();
  }

  /** The task that held it leaves, and the claim was held until now. */
  passOn({ request }: HeldClaim): boolean {
    if (!this.#tasks.someWait && !(request.stickyMs > 0 && this.#mayStay)) return false;
    if (this.#hasEnded || !this.claim.canServeAnother() || !this.#tasks.mayServe(this)) return false;
    const task = this.#tasks.nextTask();
    if (task === undefined) return this.#stay(request.stickyMs);
    this.#holder = undefined;
    // Hand-offs must not keep timers from running: among them those that renew.
    const turn = yieldTurn();
    if (turn === undefined) {
      this.number++;
      this.#tasks.give(this, task);
      return true;
    }
    this.claim.heldByProcess(this);
    this.#connection.inBackground(turn.then(() => this.#afterTurn()));
    return true;
  }

  #afterTurn(): void {
    if (this.#hasEnded) return;
    const task = this.canServe ? this.#tasks.nextTask() : undefined;
    if (task === undefined) {
      void this.release();
      return;
    }
    this.number++;
    this.#tasks.give(this, task);
  }

  get canServe(): boolean {
    return this.claim.trusted() && this.claim.canServeAnother() && this.#tasks.mayServe(this);
  }

  /** No task needs it: it stays with the process for so long, to be taken again without a request. */
  #stay(stickyMs: number): boolean {
    if (stickyMs === 0 || !this.#mayStay) return false;
    this.#holder = undefined;
    this.claim.heldByProcess(this);
    // A ref'd timer: a program that ends by itself gives the claim back first.
    this.#idleTimer = startTimer(() => this.release(), Math.min(stickyMs, this.claim.ttlMs));
    return true;
  }

  /** A task comes while the claim is idle. Whether it is good for that task; if not, it is given back. */
  resume(): boolean {
    if (!this.canServe) {
      void this.release();
      return false;
    }
    stopTimer(this.#idleTimer);
    this.#idleTimer = undefined;
    this.number++;
    return true;
  }

  /** Another process wants it: if it is idle, it is given back at once; if not, soon. */
  wanted(): void {
    if (!this.#mayStay) return;
    this.#mayStay = false;
    this.budgetEndsAtMs = nowMs() + this.#budgetMs;
    if (this.isIdle) void this.release();
    else this.#tasks.budgetBegins();
  }

  /** No task has it: it is given back behind the scenes. */
  release(): Promise<unknown> | undefined {
    if (this.#hasEnded) return undefined;
    const released = this.#connection.withdraw(this.claim);
    this.#connection.inBackground(released);
    this.end(released);
    return released;
  }

  /** It is given back, or lost. */
  end(released?: Promise<unknown>): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    stopTimer(this.#showTimer);
    stopTimer(this.#idleTimer);
    // Between two tasks no lease has done so.
    if (this.#holder === undefined) this.#connection.leave(this.claim);
    this.#tasks.ended(this, released);
  }

  #isShown({ note }: HeldClaim): boolean {
    return note === this.#shown.note && this.number === this.#shown.number;
  }

  /** A task that holds for long is shown as it is: with its note, and the number of its token. */
  #showLater(inMs = SHOWN_AFTER_MS): void {
    if (this.#showTimer !== undefined) return;
    this.#showTimer = startTimer(() => {
      this.#showTimer = undefined;
      const holder = this.#holder;
      if (holder === undefined || !holder.live) return;
      const restMs = holder.grantedAtMs + SHOWN_AFTER_MS - nowMs();
      if (restMs > 0) this.#showLater(restMs);
      else if (!this.#isShown(holder)) {
        this.#connection.inBackground(holder.show(holder.note).catch(() => undefined));
      }
    }, inMs).unref();
  }

  /** What other processes are about to see of it. */
  ownerShown(note: string): Owner {
    const { number } = this;
    this.#shown = { note, number };
    const tasks = 1 + this.#tasks.waitingForHeld;
    const sticky = this.#mayStay ? ({ sticky: true } as const) : undefined;
    return { ...this.#connection.owner, number, tasks, ...sticky };
  }

  // What renewals and notifications say while no task has it: there is no task to be told.

  expired(): void {
    if (this.#connection.backend.traits.ttl === "session") void this.release();
    else this.end();
  }

  gone(): void {
    this.end();
  }

  heldLong(): void {}

  notified(): void {
    this.#connection.renewer.hurry(this.claim);
  }
}
