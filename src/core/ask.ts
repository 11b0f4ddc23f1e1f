import type { Answer, ClaimRequest, Gone } from "./backend.js";
import type { Owner } from "./claim.js";
import type { Connection } from "./connection.js";
import type { LockKind } from "./events.js";
import type { Place } from "./place.js";
import type { Permits } from "./resizing.js";

/** What is asked for, validated and in milliseconds. */
export interface Ask {
  readonly name: string;
  /** Shown in events. */
  readonly kind: LockKind;
  readonly weight: number;
  readonly capacity: number;
  /** Takes over the capacity that is in force, and finds it out by this before the first claim. */
  readonly adopts?: (() => Promise<Permits>) | undefined;
  readonly ttlMs: number;
  readonly fixed: boolean;
  readonly minHoldMs: number;
  readonly maxHoldMs: number;
  /** After so long an event tells that it is still held. */
  readonly longHoldMs: number;
  /** 0 asks once and leaves no trace in the queue. */
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
  readonly note: string;
  readonly maxWaiters: number | undefined;
  /** What its call chain holds already. */
  readonly holds?: Owner["holds"];
  /** Told whenever the engine has answered; without an answer, when it has failed to. */
  readonly onAnswer?: ((answer?: Answer) => void) | undefined;
  /** Told when its place in the queue is gone. It enters the queue again, unless this throws. */
  readonly onPlaceLost?: ((gone: Gone, ticket: bigint) => void) | undefined;
}

/** The request that asks for a place, refreshes it, or changes its note. */
export function claimRequest(connection: Connection, ask: Ask, place: Place, note = ask.note): ClaimRequest {
  const { name, weight, capacity, ttlMs, fixed, minHoldMs, waitMs, maxWaiters } = ask;
  const { id, ticket } = place;
  const owner = ask.holds === undefined ? connection.owner : { ...connection.owner, holds: ask.holds };
  return {
    name,
    id,
    ticket,
    weight,
    capacity,
    ttlMs,
    fixed,
    minHoldMs,
    queue: waitMs > 0,
    maxWaiters,
    owner,
    note,
  };
}
