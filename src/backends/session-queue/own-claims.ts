import type { ClaimRequest, Gone, Notify, Unwatch } from "../../core/backend.js";
import type { Claim } from "../../core/claim.js";

/** A claim that this connection has made, as far as it knows. */
export abstract class OwnClaim {
  readonly id: string;
  readonly name: string;
  readonly weight: number;
  readonly capacity: number;
  readonly fixed: boolean;
  readonly minHoldMs: number;
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
  stopWatching: () => void = () => {};
  abstract readonly session: { readonly gone: boolean };

  constructor({ id, name, weight, capacity, fixed, minHoldMs }: ClaimRequest) {
    this.id = id;
    this.name = name;
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

  /** No other claim may be granted before. */
  heldUntilMs(): number {
    return this.grantedAtMs === undefined ? -Infinity : this.grantedAtMs + this.minHoldMs;
  }
}

/** The claims of one connection, and the callbacks of those that are watched. */
export class OwnClaims<C extends OwnClaim> {
  readonly #byId = new Map<string, C>();
  readonly #notify = new Map<string, Notify>();
  readonly #onForgotten: (claim: C) => void;

  constructor(onForgotten: (claim: C) => void) {
    this.#onForgotten = onForgotten;
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
    if (this.has(claim)) this.#byId.delete(claim.id);
    this.#onForgotten(claim);
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

  /** The claim with this id is gone. */
  lost(id: string, gone: Gone): void {
    const claim = this.#byId.get(id);
    // Without a ticket the request to make it is under way, and its answer tells.
    if (claim?.ticket === undefined) return;
    this.forget(claim);
    this.#notify.get(id)?.({ ...gone, ticket: claim.ticket });
  }
}
