import type { ClaimRecord, ClaimRequest, Gone, Notify, ResourceRecord, Unwatch } from "../../core/backend.js";
import { admit, type Claim } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import { parsed, type StoredMetadata } from "../../engine-kit/replies.js";

/** A claim as the servers list it. */
export interface ListedClaim {
  readonly id: string;
  readonly weight: number;
  /** `undefined`: another program has made it, and it is exclusive, whatever the capacity. */
  readonly capacity: number | undefined;
  /** Its process may keep it when no task needs it, and has to be told when another process wants it. */
  readonly sticky: boolean;
}

/** How many of these claims, in ticket order, are granted. */
export function grantedOf(claims: readonly ListedClaim[], capacity: number): number {
  const [first] = claims;
  return first !== undefined && first.capacity === undefined ? 1 : admit(claims, capacity);
}

/** The capacity that is in force; `undefined` if there are only claims of other programs. */
export function capacityOf(claims: readonly ListedClaim[]): number | undefined {
  return claims.find(({ capacity }) => capacity !== undefined)?.capacity;
}

/** One claim as `inspect` and `list` show it. */
export function claimRecord(
  claim: Omit<ClaimRecord, "owner" | "note" | "resize">,
  { owner, note, resize }: StoredMetadata,
): ClaimRecord {
  return { ...claim, owner, note, resize };
}

/** `listed` may be more than is shown; `undefined` if nothing is. */
export function resourceRecord(
  listed: readonly ListedClaim[],
  claims: readonly ClaimRecord[],
): ResourceRecord | undefined {
  const [first] = claims;
  return first && { name: first.name, capacity: capacityOf(listed) ?? first.weight, claims };
}

// The metadata of a sticky claim is where a try that is refused says that it wanted the lock: there its process watches
// it, and nothing is left behind when the claim goes.

/** The metadata of that claim as such a try writes it; `undefined` if its process need not be told. */
export function withWanted(metadata: Buffer): Buffer | undefined {
  const fields = parsed(metadata.toString());
  if (typeof fields !== "object" || fields === null) return undefined;
  if (!("sticky" in fields) || fields.sticky !== true || "wanted" in fields) return undefined;
  return Buffer.from(JSON.stringify({ ...fields, wanted: true }));
}

export function saysWanted(metadata: Buffer): boolean {
  const fields = parsed(metadata.toString());
  return typeof fields === "object" && fields !== null && "wanted" in fields;
}

/** A claim that this connection has made, as far as it knows. */
export abstract class OwnClaim {
  readonly id: string;
  readonly weight: number;
  readonly capacity: number;
  readonly fixed: boolean;
  readonly minHoldMs: number;
  /** As it was last asked for. */
  sticky: boolean;
  ticket: bigint | undefined;
  grantedAtMs: number | undefined;
  /** It was not granted at once. */
  waited = false;
  /** A request to make it has not been answered: the claim may be there, or may still appear. */
  doubtful = false;
  /** Released, but kept until its minimal time is over. */
  left = false;
  /** To be removed as soon as the servers can be reached. */
  unwanted = false;
  /** The removal that is under way, or that has succeeded. */
  removal: Promise<boolean> | undefined;
  /** The metadata that the servers were last sent. */
  written: Buffer | undefined;
  /** Ends the watch on the claims ahead of it. */
  stopWatching: () => void = () => {};
  /** Ends the watch that tells whether another process wants it; `undefined`: there is none. */
  stopListening: (() => void) | undefined;
  abstract readonly session: { readonly gone: boolean };

  constructor({ id, weight, capacity, fixed, minHoldMs, sticky }: ClaimRequest) {
    this.id = id;
    this.sticky = sticky === true;
    this.weight = weight;
    this.capacity = capacity;
    this.fixed = fixed;
    this.minHoldMs = minHoldMs;
  }

  /** For how long it is trusted; `atMostMs` is for a claim that waits, on a session that lasts longer than its ttl. */
  abstract remainingMs(askedMs: number, atMostMs?: number): number;

  get exclusive(): boolean {
    return this.weight === this.capacity;
  }

  /** Until then no other claim may be granted. */
  heldUntilMs(): number {
    return this.grantedAtMs === undefined ? -Infinity : this.grantedAtMs + this.minHoldMs;
  }
}

/** What differs between the engines when a claim ends. */
export interface ClaimDriver<C extends OwnClaim> {
  /** Whether the servers still have the claim. */
  isThere(claim: C): Promise<boolean>;
  /** Removes it, and any request to make it that was not answered. Says whether it was there. */
  remove(claim: C): Promise<boolean>;
  /** The pause after a removal that failed; `undefined`: the driver itself tries again when it is connected. */
  retryMs(claim: C): number | undefined;
  /** This connection no longer knows it. */
  forgotten?(claim: C): void;
  /** Why a claim is gone whose session is not. */
  goneOf(id: string): Promise<Gone>;
}

/**
 * The claims of one connection, and the callbacks of those that are watched. They are released now, when their minimal
 * time is over, or, after an outage, as soon as that can be done.
 */
export class OwnClaims<C extends OwnClaim> {
  readonly #byId = new Map<string, C>();
  readonly #notify = new Map<string, Notify>();
  readonly #driver: ClaimDriver<C>;
  readonly timers = new Timers();

  constructor(driver: ClaimDriver<C>) {
    this.#driver = driver;
  }

  get(id: string): C | undefined {
    return this.#byId.get(id);
  }

  /** The claim with that ticket, unless it was released. */
  current({ id, ticket }: Pick<Claim, "id" | "ticket">): C | undefined {
    const claim = this.#byId.get(id);
    return claim?.ticket === ticket && !claim.left ? claim : undefined;
  }

  has(claim: C): boolean {
    return this.#byId.get(claim.id) === claim;
  }

  add(claim: C): void {
    this.#byId.set(claim.id, claim);
  }

  forget(claim: C): void {
    claim.stopWatching();
    claim.stopListening?.();
    if (this.has(claim)) this.#byId.delete(claim.id);
    this.#driver.forgotten?.(claim);
  }

  of(session: C["session"]): readonly C[] {
    return [...this.#byId.values()].filter((claim) => claim.session === session);
  }

  /** The sessions that must not end when the connection is closed: work may go on under their claims. */
  sessionsInUse(): ReadonlySet<C["session"]> {
    return new Set([...this.#byId.values()].flatMap((claim) => (claim.unwanted ? [] : [claim.session])));
  }

  watch(id: string, notify: Notify): Unwatch {
    this.#notify.set(id, notify);
    return () => void this.#notify.delete(id);
  }

  /** The claim may have been granted: its process should ask. */
  notify({ id }: C): void {
    this.#notify.get(id)?.();
  }

  /** Another process wants it: its own one is told once. */
  wanted(claim: C): void {
    const { id, ticket, stopListening } = claim;
    if (stopListening === undefined || ticket === undefined) return;
    stopListening();
    claim.stopListening = undefined;
    this.#notify.get(id)?.({ state: "wanted", ticket });
  }

  /** Forgets a claim that is not there any more, and says why it is gone. */
  async goneAfter(claim: C): Promise<Gone> {
    this.forget(claim);
    return claim.session.gone ? { state: "gone", loss: "session" } : this.#driver.goneOf(claim.id);
  }

  lost(id: string, gone: Gone): void {
    const claim = this.#byId.get(id);
    // Without a ticket the request to make it is under way, and its answer tells.
    if (claim?.ticket === undefined) return;
    this.forget(claim);
    this.#notify.get(id)?.({ ...gone, ticket: claim.ticket });
  }

  /** Says whether it was still there. A claim under which no work was done need not stay for its minimal time. */
  async release(claim: C, unused = false): Promise<boolean> {
    try {
      const restMs = claim.heldUntilMs() - nowMs();
      return await (restMs > 0 && !unused ? this.#leaveLater(claim, restMs) : this.remove(claim));
    } catch (error) {
      this.#tryAgain(claim, unused);
      throw error;
    }
  }

  async remove(claim: C): Promise<boolean> {
    claim.unwanted = true;
    const found = await this.#removeOnce(claim);
    this.forget(claim);
    return found;
  }

  /**
   * One removal of a claim at a time, and none after one that has succeeded: it could delete what a later request of the
   * same id has made in its place.
   */
  #removeOnce(claim: C): Promise<boolean> {
    claim.removal ??= this.#driver.remove(claim).catch((error: unknown) => {
      claim.removal = undefined;
      throw error;
    });
    return claim.removal;
  }

  /** For a claim that was given up, while a request to make it may be under way, or it may be there unseen. */
  removeInBackground(claim: C): void {
    this.#removeOnce(claim).catch(() => this.#tryAgain(claim, true));
  }

  /** If this process ends meanwhile, the servers keep it; while the process runs, it is removed to the moment. */
  async #leaveLater(claim: C, restMs: number): Promise<boolean> {
    if (!(await this.#driver.isThere(claim))) {
      this.forget(claim);
      return false;
    }
    claim.left = true;
    this.timers.later(restMs, () => void this.remove(claim).catch(() => this.#tryAgain(claim, true)));
    return true;
  }

  /**
   * A claim that could not be removed would last as long as its session, which other claims may keep: tried until it
   * is, but not before its minimal time is over. Where the driver tries again by itself, it does so for claims that
   * are unwanted, and within its minimal time a claim is not.
   */
  #tryAgain(claim: C, unused: boolean): void {
    if (claim.session.gone) {
      this.forget(claim);
      return;
    }
    const pauseMs = this.#driver.retryMs(claim);
    const restMs = unused ? 0 : claim.heldUntilMs() - nowMs();
    if (pauseMs === undefined && claim.unwanted) return;
    this.timers.later(Math.max(pauseMs ?? 0, restMs), () => {
      this.remove(claim).catch(() => this.#tryAgain(claim, unused));
    });
  }
}

/** Work for later, unless the connection is closed before. Does not keep the process alive. */
export class Timers {
  readonly #running = new Set<NodeJS.Timeout>();
  #closed = false;

  later(ms: number, work: () => void): void {
    if (this.#closed) return;
    const run = () => {
      this.#running.delete(timer);
      work();
    };
    const timer = startTimer(run, ms).unref();
    this.#running.add(timer);
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#running) clearTimeout(timer);
    this.#running.clear();
  }
}
