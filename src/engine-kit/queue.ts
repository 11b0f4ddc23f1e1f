import type {
  Answer,
  ClaimRecord,
  ClaimRequest,
  Force,
  Gone,
  Notification,
  Renewal,
} from "../core/backend.js";
import { admit, type Owner } from "../core/claim.js";
import { steadyMs } from "../core/clock.js";

/** A claim as the engine keeps it. Times are the engine's own. */
export interface StoredClaim {
  readonly id: string;
  readonly ticket: bigint;
  readonly weight: number;
  readonly fixed: boolean;
  readonly minHoldMs: number;
  readonly cameAtMs: number;
  /**
   * When the grant began: with the first granted answer. For a claim that is neither fixed nor has a `minHold`, the
   * notification counts as one.
   */
  grantedAtMs: number | undefined;
  deadlineMs: number;
  /** Released, but kept until its `minHold` is over. */
  left: boolean;
  owner: Owner;
  note: string;
  readonly resize: number | undefined;
}

/** A waiter that is told something. Without a notification it is told to ask. */
export interface ToNotify {
  readonly id: string;
  readonly notification?: Notification;
}

/** What became of a step: its result, and the processes that have to be notified. */
export interface Stepped<T> {
  readonly result: T;
  readonly notify: readonly ToNotify[];
}

/**
 * The executable specification of an engine: the queue of one name, in ticket order. Which claims are granted is never
 * stored: it follows from the rule (`admit`). Every method takes the time of the engine. An engine that keeps the queue
 * as one value loads it, makes one step, and stores it if nothing has changed meanwhile; an engine with code on its
 * server does the same there, and a model test holds it to the same answers.
 */
export class Queue {
  capacity = 0;
  readonly claims: StoredClaim[] = [];

  constructor(readonly name: string) {}

  /**
   * One atomic step: drop what has expired, act, and list the granted claims that have had no granted answer yet. A claim
   * that is fixed or has a `minHold` is listed at every step until it asks.
   */
  step<T>(atMs: number, act: (notify: (toNotify: ToNotify) => void) => T): Stepped<T> {
    const notify: ToNotify[] = [];
    this.#dropExpired(atMs);
    const result = act((toNotify) => void notify.push(toNotify));
    for (const claim of this.#granted()) {
      if (claim.grantedAtMs !== undefined) continue;
      // Where the grant starts a clock of its own, the claim itself has to ask for it.
      if (!claim.fixed && claim.minHoldMs === 0) claim.grantedAtMs = atMs;
      notify.push({ id: claim.id, notification: { state: "granted", ticket: claim.ticket } });
    }
    return { result, notify };
  }

  /** Enters the queue, or refreshes a claim that is there, and answers. `gone` says why a claim is not there any more. */
  claim(
    request: ClaimRequest,
    atMs: number,
    notify: (toNotify: ToNotify) => void,
    nextTicket: () => bigint,
    gone: () => Gone,
  ): Answer {
    const known = this.find(request.id);
    if (
      known === undefined ||
      known.left ||
      (request.ticket !== undefined && request.ticket !== known.ticket)
    ) {
      if (known !== undefined || request.ticket !== undefined) return gone();
      return this.#enter(request, atMs, notify, nextTicket);
    }
    known.note = request.note;
    known.owner = request.owner;
    return this.#answer(known, request.ttlMs, atMs);
  }

  #enter(
    request: ClaimRequest,
    atMs: number,
    notify: (toNotify: ToNotify) => void,
    nextTicket: () => bigint,
  ): Answer {
    const empty = this.claims.length === 0;
    if (!empty && request.capacity !== this.capacity) {
      return { state: "capacity-mismatch", capacity: this.capacity };
    }
    const granted = admit([...this.claims, request], request.capacity);
    const waiters = this.claims.length - Math.min(granted, this.claims.length);
    if (granted <= this.claims.length) {
      // Behind a first waiter the holder knows already.
      if (waiters === 0) this.#tellStickyHolder(notify);
      if (!request.queue) return { state: "refused" };
      if (waiters >= (request.maxWaiters ?? Infinity)) return { state: "queue-full", waiters };
    }
    const { id, weight, fixed, minHoldMs, owner, note, resize, ttlMs } = request;
    const claim: StoredClaim = {
      id,
      ticket: nextTicket(),
      weight,
      fixed,
      minHoldMs,
      cameAtMs: atMs,
      grantedAtMs: undefined,
      deadlineMs: atMs + ttlMs,
      left: false,
      owner,
      note,
      resize,
    };
    this.capacity = request.capacity;
    this.claims.push(claim);
    const answer = this.#answer(claim, ttlMs, atMs);
    return answer.state === "granted" && request.sticky ? { ...answer, tells: true } : answer;
  }

  /** The claim of a mutex may stay with a process that does not need it now: another one wants it. */
  #tellStickyHolder(notify: (toNotify: ToNotify) => void): void {
    const [holder] = this.claims;
    if (holder?.owner.sticky)
      notify({ id: holder.id, notification: { state: "wanted", ticket: holder.ticket } });
  }

  #answer(claim: StoredClaim, ttlMs: number, atMs: number): Answer {
    const { ticket } = claim;
    if (!this.#isGranted(claim)) {
      claim.deadlineMs = Math.max(claim.deadlineMs, atMs + ttlMs);
      return {
        state: "waiting",
        ticket,
        remainingMs: claim.deadlineMs - atMs,
        changeInMs: this.#changeInMs(atMs),
      };
    }
    const first = claim.grantedAtMs === undefined;
    claim.grantedAtMs ??= atMs;
    // A fixed time counts once, from the grant; so does the time for which no other holder may be let in.
    if (first) claim.deadlineMs = Math.max(claim.deadlineMs, atMs + Math.max(ttlMs, claim.minHoldMs));
    else if (!claim.fixed) claim.deadlineMs = Math.max(claim.deadlineMs, atMs + ttlMs);
    return { state: "granted", ticket, remainingMs: claim.deadlineMs - atMs };
  }

  /** Extends a claim that is still there; `undefined` if it is gone. */
  renew(id: string, ticket: bigint, ttlMs: number, atMs: number): Renewal | undefined {
    const claim = this.find(id);
    if (claim === undefined || claim.left || claim.ticket !== ticket) return undefined;
    if (!claim.fixed || claim.grantedAtMs === undefined) {
      claim.deadlineMs = Math.max(claim.deadlineMs, atMs + ttlMs);
    }
    const remainingMs = claim.deadlineMs - atMs;
    if (this.#isGranted(claim)) {
      const isWanted = claim.owner.sticky && this.claims.length > 1;
      return { state: "held", remainingMs, ...(isWanted ? { wanted: true } : undefined) };
    }
    return { state: "waiting", remainingMs, changeInMs: this.#changeInMs(atMs) };
  }

  /**
   * Removes the claim, or keeps it until its `minHold` is over; to the others, a kept claim looks held. `atOnce` ignores
   * the `minHold`. `force`: it is taken away, and its process is notified.
   */
  release(
    id: string,
    atOnce: boolean,
    atMs: number,
    notify: (toNotify: ToNotify) => void,
    force?: Force,
  ): boolean {
    const claim = this.find(id);
    if (claim === undefined || (claim.left && !atOnce)) return false;
    const heldUntilMs = claim.grantedAtMs === undefined ? -Infinity : claim.grantedAtMs + claim.minHoldMs;
    if (!atOnce && heldUntilMs > atMs) {
      claim.left = true;
      claim.deadlineMs = heldUntilMs;
      // The next waiter learns by asking that the wait will be shorter than it was told.
      const next = this.claims[this.#granted().length];
      if (next !== undefined) notify({ id: next.id });
    } else {
      this.claims.splice(this.claims.indexOf(claim), 1);
    }
    if (force !== undefined)
      notify({ id, notification: { state: "gone", loss: "forced", ...force, ticket: claim.ticket } });
    return true;
  }

  #dropExpired(atMs: number): void {
    for (let index = this.claims.length - 1; index >= 0; index--) {
      const claim = this.claims[index];
      if (claim !== undefined && claim.deadlineMs <= atMs) this.claims.splice(index, 1);
    }
  }

  /** The claim with that id, if it is in the queue. */
  find(id: string): StoredClaim | undefined {
    return this.claims.find((claim) => claim.id === id);
  }

  #granted(): readonly StoredClaim[] {
    return this.claims.slice(0, admit(this.claims, this.capacity));
  }

  #isGranted(claim: StoredClaim): boolean {
    return this.claims.indexOf(claim) < admit(this.claims, this.capacity);
  }

  /** All claims, as `Backend.list` shows them. */
  records(atMs: number): ClaimRecord[] {
    return this.claims.map(
      ({ id, ticket, weight, owner, note, resize, cameAtMs, grantedAtMs, deadlineMs }) => ({
        name: this.name,
        id,
        ticket,
        weight,
        owner,
        note,
        resize,
        ageMs: atMs - (grantedAtMs ?? cameAtMs),
        remainingMs: deadlineMs - atMs,
      }),
    );
  }

  #changeInMs(atMs: number): number {
    return this.claims.reduce((soonest, claim) => Math.min(soonest, claim.deadlineMs), Infinity) - atMs;
  }
}

/** A server ignores a floor that is farther ahead of its own clock than this: one hour. */
export const FLOOR_BOUND_US = 3_600_000_000;

/** What our clock adds to the estimate per millisecond: 0.1 % less than the µs that have passed. */
const US_PER_MS = 999;

/** Rounded down to 10 ms, because a number that stays the same for a while costs far less to write and to read. */
const STEP_US = 10_000;

/**
 * The lowest ticket that a server should draw for this process, for engines that draw
 * `max(last ticket of the name + 1, server's clock in µs)`. Sent with each new claim, it keeps tokens growing when
 * the server's clock was set back, or when a new primary has lost the last tickets and its clock is behind.
 *
 * It is an estimate of the server's clock: the highest ticket seen, plus the time since then by our own clock. So
 * it also covers names that this process never asked for. It is never ahead of the clock that it estimates: an
 * answer takes time, a paused process sees it late, our clock stands still while the machine sleeps, and 0.1 % of
 * the time is left out because two clocks may run at different speeds.
 */
export class TicketFloor {
  /**
   * The estimate, taken back to the zero of our clock. All estimates rise at the same speed, so the higher of two
   * stays the higher one, and one number is enough. A number is exact for µs until the year 2255.
   */
  #atZeroUs = -Infinity;

  /** The ticket of a new claim; not the old ticket of a claim that is asked about again. */
  observe(ticket: bigint, atMs = steadyMs()): void {
    const atZeroUs = Number(ticket) - atMs * US_PER_MS;
    // The server ignores an estimate that is so far ahead: its clock was wrong before, or ours has jumped.
    if (atZeroUs > this.#atZeroUs || this.#atZeroUs - atZeroUs > FLOOR_BOUND_US) this.#atZeroUs = atZeroUs;
  }

  /** 0 before the first ticket. */
  lowest(atMs = steadyMs()): number {
    return Math.max(0, Math.floor((this.#atZeroUs + atMs * US_PER_MS) / STEP_US) * STEP_US);
  }
}
