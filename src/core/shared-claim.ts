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
  /** How many wait. */
  readonly waiting: number;
  /** The task to pass the claim on to, now that its holder leaves. */
  nextFor(claim: SharedClaim): WaitingTask | undefined;
  give(claim: SharedClaim, task: WaitingTask): void;
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
  readonly #connection: Connection;
  readonly #tasks: SharedClaimTasks;
  #holder: HeldClaim | undefined;
  #hasEnded = false;
  /** What other processes see of it. */
  #shown: { readonly note: string; readonly number: number } | undefined;
  #showTimer: NodeJS.Timeout | undefined;

  constructor(
    connection: Connection,
    readonly claim: ClaimState,
    tasks: SharedClaimTasks,
  ) {
    this.#connection = connection;
    this.#tasks = tasks;
    this.budgetEndsAtMs = this.grantedAtMs + Math.min(BUDGET_MS, claim.ttlMs / 3);
  }

  /** It is passed on to no other task. */
  get isSpent(): boolean {
    return this.number >= LAST_NUMBER || nowMs() >= this.budgetEndsAtMs;
  }

  get isBetweenTasks(): boolean {
    return !this.#hasEnded && this.#holder === undefined;
  }

  get holder(): HeldClaim | undefined {
    return this.#holder;
  }

  /** A task holds it from now on. */
  heldBy(holder: HeldClaim): void {
    this.#holder = holder;
    if (this.number === 0) this.#shown = { note: holder.request.note, number: 0 };
    else this.#showLater();
  }

  /** The task that held it leaves, and the claim was held until now. Whether it goes on to another task. */
  passOn(): boolean {
    if (this.#hasEnded || !this.#isGoodForAnother()) return false;
    const task = this.#tasks.nextFor(this);
    if (task === undefined) return false;
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
    const task = this.claim.trusted() && this.#isGoodForAnother() ? this.#tasks.nextFor(this) : undefined;
    if (task === undefined) {
      this.#release();
      return;
    }
    this.number++;
    this.#tasks.give(this, task);
  }

  /**
   * In normal operation a third of the longest time is left at any moment. With less, renewals fail, or the process was
   * paused: the next task gets a claim of its own then, and not the rest of this one.
   */
  #isGoodForAnother(): boolean {
    return this.claim.canServeAnother();
  }

  /** No task has it: it is given back behind the scenes. */
  #release(): void {
    const released = this.#connection.withdraw(this.claim);
    this.#connection.inBackground(released);
    this.end(released);
  }

  /** It is given back, or lost. */
  end(released?: Promise<unknown>): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    stopTimer(this.#showTimer);
    // Between two tasks no lease has done so.
    if (this.#holder === undefined) this.#connection.leave(this.claim);
    this.#tasks.ended(this, released);
  }

  /** A task that holds for long is shown as it is: with its note, and the number of its token. */
  #showLater(): void {
    if (this.#showTimer !== undefined) return;
    this.#showTimer = startTimer(() => {
      this.#showTimer = undefined;
      const holder = this.#holder;
      if (holder === undefined || !holder.live) return;
      const restMs = holder.grantedAtMs + SHOWN_AFTER_MS - nowMs();
      if (restMs > 0) this.#showLater();
      else if (holder.note !== this.#shown?.note || this.number !== this.#shown.number) {
        this.#connection.inBackground(holder.show(holder.note).catch(() => undefined));
      }
    }, SHOWN_AFTER_MS).unref();
  }

  /** What other processes are about to see of it. */
  ownerShown(note: string): Owner {
    const { number } = this;
    this.#shown = { note, number };
    const tasks = 1 + this.#tasks.waiting;
    return { ...this.#connection.owner, number, tasks };
  }

  // What renewals and notifications say while no task has it: there is no task to be told.

  expired(): void {
    if (this.#connection.backend.traits.ttl === "session") this.#release();
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
