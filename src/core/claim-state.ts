import { randomBytes } from "node:crypto";
import type { Force, Gone, Notification, Renewal, Unknown, Unwatch } from "./backend.js";
import type { Claim } from "./claim.js";
import { driftMs, knownSleepMs, lookForSleepMs, nowMs, type Sent } from "./clock.js";
import type { LeaseLostError, Loss } from "./errors.js";
import type { LockKind } from "./events.js";

const ID_BYTES = 16;
let pool = Buffer.alloc(0);
let poolAt = 0;

/** 128 random bits. Asking the system for them one at a time would cost more than all the rest here. */
function randomId(): string {
  if (poolAt + ID_BYTES > pool.length) {
    pool = randomBytes(ID_BYTES * 256);
    poolAt = 0;
  }
  poolAt += ID_BYTES;
  return pool.toString("base64url", poolAt - ID_BYTES, poolAt);
}

/** Told what renewals and notifications say about a claim. */
interface ClaimListener {
  /** Something may have changed: ask. */
  notified(): void;
  gone(gone: Gone): void;
}

/** A claim that may stay with its process for a while is wanted by another one. */
interface WantedListener {
  wanted(): void;
}

export interface WaiterListener extends ClaimListener {
  granted(): void;
}

export interface HolderListener extends ClaimListener, WantedListener {
  /** The trust in the claim has run out. */
  expired(paused: boolean): void;
  /** It has been held for a long time. */
  heldLong(): void;
}

/** A granted claim, as its connection sees it. */
export interface Grant {
  readonly claim: ClaimState;
  readonly token: bigint;
  readonly grantedAtMs: number;
  /** How many callbacks of `run` work under it. */
  readonly running: number;
  readonly ended: boolean;
  readonly lost: LeaseLostError | undefined;
  /** Tells the holder; from then on nothing is renewed. */
  lose(loss: Loss, told?: Partial<Force>): void;
  /** The connection closes: the holder is told to stop. */
  close(): void;
  giveBack(): Promise<boolean>;
}

/**
 * My claim, as far as this process knows: its ticket, and until when the engine's last acknowledged
 * answer lets us trust that the claim is there.
 */
export class ClaimState {
  readonly id = randomId();
  ticket: bigint | undefined;
  held = false;
  /** Another process wants it: told since the ticket was drawn. */
  wanted = false;
  /** It was held, but no work was done under it. */
  unused = false;
  /** When it became held; what was asked before that says nothing about a holder. */
  #heldSinceMs = Infinity;
  #waiter: WaiterListener | undefined;
  #holder: HolderListener | undefined;
  /** A lease that is not to be held longer than this is neither trusted nor renewed beyond it. */
  holdLimitMs = Infinity;
  /** When it has been held for so long that an event tells of it. */
  longHoldAtMs = Infinity;
  /** When the renewer refreshes it next. */
  dueMs = Infinity;
  /** Ends the notifications about it. */
  unwatch: Unwatch | undefined;
  #trustedUntilMs = -Infinity;
  #sleptMs = 0;
  #longestMs = 0;
  /** A notification may be faster than the answer with the ticket. */
  #wantedTicket: bigint | undefined;
  #goneEarly: (Gone & { readonly ticket: bigint }) | undefined;
  #isShortened = false;

  constructor(
    readonly name: string,
    readonly kind: LockKind,
    readonly ttlMs: number,
    /** The time to live counts once, from the grant. */
    readonly fixed: boolean,
    /** Whether a notification alone may grant it, or its own answer must set the deadline. */
    readonly grantedByNotification: boolean,
  ) {}

  waitedForBy(waiter: WaiterListener): void {
    this.#waiter = waiter;
  }

  /** It is granted: from now on its holder is told what happens to it. */
  heldBy(holder: HolderListener, atMs: number, limits: { maxHoldMs: number; longHoldMs: number }): void {
    if (!this.held) this.#heldSinceMs = atMs;
    this.held = true;
    this.unused = false;
    this.holdLimitMs = atMs + limits.maxHoldMs;
    this.longHoldAtMs = atMs + limits.longHoldMs;
    this.#holder = holder;
    this.#waiter = undefined;
  }

  /** It is held, but no task of this process has it. The limits of the last one are over. */
  heldByProcess(listener: HolderListener): void {
    this.#holder = listener;
    this.holdLimitMs = Infinity;
    this.longHoldAtMs = Infinity;
  }

  /**
   * Whether there is time for another task, whatever limit the last one had: a third of the longest time that the engine
   * has ever said was left. Once a request has asked for less than the ttl, what is trusted here may be more than what
   * the engine keeps.
   */
  canServeAnother(): boolean {
    const restMs = this.#trustedUntilMs - (knownSleepMs() - this.#sleptMs) - nowMs();
    return !this.#isShortened && restMs >= this.#longestMs / 3;
  }

  /** A notification has said before the first answer that the claim of that answer is gone. */
  get goneBeforeAnswer(): Gone | undefined {
    return this.#goneEarly?.ticket === this.ticket ? this.#goneEarly : undefined;
  }

  /** The engine has said that the claim is gone, in an answer to one of its tasks. */
  toldGone(gone: Gone): void {
    this.#listener?.gone(gone);
  }

  /** From now on no listener is told of it. */
  forget(): void {
    this.#waiter = undefined;
    this.#holder = undefined;
  }

  expired(paused: boolean): void {
    this.#holder?.expired(paused);
  }

  heldLong(): void {
    this.longHoldAtMs = Infinity;
    this.#holder?.heldLong();
  }

  get #listener(): ClaimListener | undefined {
    return this.#holder ?? this.#waiter;
  }

  /** The engine has answered a request that we sent then. */
  acknowledge(ticket: bigint, remainingMs: number, sent: Sent): void {
    // Once trust has run out it does not come back, though an answer to an older request may still arrive.
    if (this.held && !this.trusted()) return;
    if (ticket !== this.ticket) {
      this.ticket = ticket;
      this.wanted = ticket === this.#wantedTicket;
      this.#trustedUntilMs = -Infinity;
    }
    if (remainingMs > this.#longestMs) this.#longestMs = remainingMs;
    // Counted from the sending: the engine may have acted at any moment since then.
    const untilMs = sent.atMs + remainingMs - driftMs(Math.max(this.ttlMs, remainingMs));
    // An answer to a later question reaches further by what the machine has slept in between.
    if (untilMs + sent.sleptMs <= this.#trustedUntilMs + this.#sleptMs) return;
    this.#trustedUntilMs = untilMs;
    this.#sleptMs = sent.sleptMs;
  }

  /** On our monotonic clock; a sleep of the machine since the last answer brings it nearer. */
  trustedUntilMs(): number {
    const sleptMs = knownSleepMs() - this.#sleptMs;
    return Math.min(this.#trustedUntilMs - sleptMs, this.holdLimitMs);
  }

  /** Clocks are compared at each look: a timer that sets a flag is late exactly when it matters. */
  trusted(): boolean {
    const atMs = nowMs();
    lookForSleepMs(atMs);
    return atMs < this.trustedUntilMs();
  }

  /** Once it is not trusted: whether it would still be, had the machine not slept. */
  get endedBySleep(): boolean {
    return nowMs() < Math.min(this.#trustedUntilMs, this.holdLimitMs);
  }

  /** What a renewal sent now may ask for; 0 means: leave it alone. */
  renewalMs(atMs: number): number {
    if (this.ticket === undefined || (this.held && this.fixed)) return 0;
    const lengthMs = Math.max(0, Math.min(this.ttlMs, Math.ceil(this.holdLimitMs - atMs)));
    if (lengthMs < this.ttlMs) this.#isShortened = true;
    return lengthMs;
  }

  /** How it ends: where no work was done under it, its minHold means nothing. */
  get ending(): "unused" | undefined {
    return this.held && !this.unused ? undefined : "unused";
  }

  identity(): Claim | undefined {
    return this.ticket === undefined ? undefined : { name: this.name, id: this.id, ticket: this.ticket };
  }

  renewed(ticket: bigint, renewal: Exclude<Renewal, Unknown>, sent: Sent): void {
    if (ticket !== this.ticket) return;
    if (renewal.state === "gone") {
      this.#listener?.gone(renewal);
    } else if (renewal.state === "waiting" && this.held) {
      // A lossy failover can put a holder back into the queue: it holds nothing any more.
      if (sent.atMs >= this.#heldSinceMs) this.#listener?.gone({ state: "gone", loss: "taken" });
    } else {
      this.acknowledge(ticket, renewal.remainingMs, sent);
      if (renewal.state === "held" && !this.held) this.#listener?.notified();
      if (renewal.state === "held" && renewal.wanted) this.#isWanted();
    }
  }

  #isWanted(): void {
    this.wanted = true;
    this.#holder?.wanted();
  }

  /** A notification is a hint, unless it carries the current ticket and the claim is still trusted. */
  notify(notification?: Notification): void {
    const mine = notification !== undefined && notification.ticket === this.ticket;
    if (notification?.state === "wanted") {
      this.#wantedTicket = notification.ticket;
      if (mine) this.#isWanted();
      return;
    }
    if (this.ticket === undefined && notification?.state === "gone") this.#goneEarly = notification;
    if (mine && notification.state === "gone") this.#listener?.gone(notification);
    else if (mine && this.grantedByNotification && this.trusted()) this.#waiter?.granted();
    else this.#listener?.notified();
  }
}
