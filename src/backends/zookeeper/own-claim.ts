import type { ClaimRequest } from "../../core/backend.js";
import type { Owner } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import type { ClaimMetadata } from "../../engine-kit/claim-metadata.js";
import { claimNode, encodeName } from "./names.js";
import type { Session } from "./session.js";

/** What is written into a claim's node, for people. */
export interface ClaimValue extends ClaimMetadata {
  /** How long its session lasts without being heard of. */
  readonly ttl: number;
  /** How many milliseconds after it came it was granted. */
  readonly granted?: number;
}

export function parentOf(root: string, name: string): string {
  return `${root}/${encodeName(name)}`;
}

/**
 * How long a session has to last for this claim. It is trusted for two thirds of its timeout after a write: a
 * claim that is renewed has those anew with every renewal. A fixed one has to do with the write at its grant. For
 * `minHold` the node has to stay for that long even if the process dies right after the grant.
 */
export function sessionFor({ ttlMs, fixed, minHoldMs }: ClaimRequest): number {
  return Math.max(fixed ? ttlMs * 1.5 : ttlMs, minHoldMs * 1.5);
}

/** A claim that this connection has made, as far as it knows. */
export class OwnClaim {
  readonly id: string;
  readonly parent: string;
  readonly weight: number;
  readonly capacity: number;
  readonly fixed: boolean;
  readonly minHoldMs: number;
  /** The name of its node, as soon as that is known. */
  node: string | undefined;
  ticket: bigint | undefined;
  grantedAtMs: number | undefined;
  /** It was not granted at once. */
  waited = false;
  /** A request to make it has not been answered: it may have come true. */
  doubtful = false;
  /** Released, but kept until its minimal time is over. */
  left = false;
  /** To be removed as soon as the servers can be reached. */
  unwanted = false;
  /** What the servers were last told of it. */
  written: Buffer | undefined;
  stopWatching: () => void = () => {};
  readonly #cameMs = nowMs();
  #endsMs = Infinity;

  constructor(
    root: string,
    request: ClaimRequest,
    readonly session: Session,
  ) {
    this.id = request.id;
    this.parent = parentOf(root, request.name);
    this.weight = request.weight;
    this.capacity = request.capacity;
    this.fixed = request.fixed;
    this.minHoldMs = request.minHoldMs;
  }

  /** The path to create it at; the servers add its sequence. */
  get creation(): string {
    return `${this.parent}/${claimNode(this.id, this.weight, this.capacity)}`;
  }

  get path(): string {
    return `${this.parent}/${this.node}`;
  }

  /** What is left of its time, counted from the moment at which somebody asked. */
  remainingMs(askedMs: number): number {
    return Math.max(0, Math.min(this.session.trustedUntilMs, this.#endsMs) - askedMs);
  }

  heldUntilMs(): number {
    return this.grantedAtMs === undefined ? -Infinity : this.grantedAtMs + this.minHoldMs;
  }

  grant(ttlMs: number): void {
    this.grantedAtMs = nowMs();
    if (this.fixed) this.#endsMs = this.grantedAtMs + Math.max(ttlMs, this.minHoldMs);
  }

  value({ owner, note }: { readonly owner: Owner; readonly note: string }): Buffer {
    const { grantedAtMs, session } = this;
    const shown = this.waited && grantedAtMs !== undefined;
    const value: ClaimValue = {
      owner,
      note,
      bell: session.bell,
      ttl: session.timeoutMs,
      ...(shown ? { granted: Math.round(grantedAtMs - this.#cameMs) } : undefined),
    };
    return Buffer.from(JSON.stringify(value));
  }
}
