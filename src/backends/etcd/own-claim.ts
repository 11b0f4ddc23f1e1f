import type { ClaimRequest } from "../../core/backend.js";
import type { Owner } from "../../core/claim.js";
import { restMs, type Sent } from "../../core/clock.js";
import type { ClaimMetadata } from "../../engine-kit/claim-metadata.js";
import { claimKey } from "./keys.js";
import type { Long } from "./messages.js";
import { QueueView } from "./queue-view.js";
import type { Session } from "./session.js";

/** What is written beside a claim, for people; times are of the claimant's wall clock. */
export interface ClaimValue extends ClaimMetadata {
  readonly came: number;
  readonly granted?: number;
}

/** A claim that this connection has made, as far as it knows. */
export class OwnClaim {
  readonly queue: QueueView;
  readonly key: Buffer;
  readonly name: string;
  readonly weight: number;
  readonly capacity: number;
  readonly fixed: boolean;
  readonly minHoldMs: number;
  readonly #came = Date.now();
  #grantedWall: number | undefined;
  ticket: bigint | undefined;
  /** When we heard that it is there, or was moved to this session. */
  madeMs = -Infinity;
  grantedAtMs: number | undefined;
  /** It was not granted at once. */
  waited = false;
  /** A lease that keeps this claim alone, and until when: of a fixed length, or of a minimal one. */
  alone: { readonly lease: Long; readonly sent: Sent; readonly lengthMs: number } | undefined;
  /** A request to make it has not been answered: it may still come true. */
  doubtful = false;
  /** Released, but kept until its minimal time is over. */
  left = false;
  /** What the servers were last told of it. */
  written: Buffer | undefined;
  stopWatching: () => void = () => {};

  constructor(
    readonly id: string,
    root: string,
    request: ClaimRequest,
    public session: Session,
  ) {
    this.name = request.name;
    this.weight = request.weight;
    this.capacity = request.capacity;
    this.fixed = request.fixed;
    this.minHoldMs = request.minHoldMs;
    this.queue = new QueueView(root, request.name);
    this.key = claimKey(root, request, session.lease);
  }

  get exclusive(): boolean {
    return this.weight === this.capacity;
  }

  remainingMs(): number {
    return this.alone === undefined
      ? this.session.remainingMs()
      : restMs(this.alone.sent, this.alone.lengthMs);
  }

  /** From here on, no request to make it that was sent before comes true. */
  async cancelPending(): Promise<void> {
    if (this.doubtful) await this.session.cancelPending();
    this.doubtful = false;
  }

  heldUntilMs(): number {
    return this.grantedAtMs === undefined ? -Infinity : this.grantedAtMs + this.minHoldMs;
  }

  grant(atMs: number): void {
    this.grantedAtMs = atMs;
    this.#grantedWall = Date.now();
  }

  /** What is to be shown of it; `isGranted` as of now, if it was not before. */
  value(
    { owner, note }: { readonly owner: Owner; readonly note: string },
    bell: string,
    isGranted = false,
  ): Buffer {
    const granted = this.#grantedWall ?? (isGranted ? Date.now() : undefined);
    const value: ClaimValue = {
      owner,
      note,
      bell,
      came: this.#came,
      ...(granted === undefined ? undefined : { granted }),
    };
    return Buffer.from(JSON.stringify(value));
  }
}
