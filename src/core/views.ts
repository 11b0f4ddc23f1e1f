import type { Owner } from "./claim.js";

/** A claim as people may see it: everything but its id. */
export interface ClaimView {
  readonly token: bigint;
  /** `"exclusive"`: a mutex, or the write side of a read-write lock. */
  readonly mode: "exclusive" | "shared";
  /** How many permits of a semaphore it has, or asks for. */
  readonly permits?: number;
  readonly note: string;
  readonly owner: Owner;
  /** Holders: since the grant. Waiters: since they came. */
  readonly ageMs: number;
  readonly remainingMs: number;
}

export interface ResourceView {
  readonly name: string;
  /** How many permits there are in all, if it is in use as a semaphore. */
  readonly permits?: number;
  readonly holders: readonly ClaimView[];
  readonly waiters: readonly ClaimView[];
  /** If holders and waiters wait for each other: which of them holds what, and waits for what. */
  readonly deadlock?: readonly DeadlockStep[];
}

/** A claim of a deadlock: what its process holds, and the name it waits for, which the next step holds. */
export interface DeadlockStep {
  readonly owner: Owner;
  readonly holds: string;
  readonly waitsFor: string;
}
