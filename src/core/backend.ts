import type { Claim, Owner } from "./claim.js";

/** What an engine promises, and what breaks the promise. Shown to users as `locks.guarantees`. */
export interface Traits {
  /** The name of the engine: mostly the scheme of its URL. */
  readonly engine: string;
  /** What can share a lock: the tasks of one process, all processes of one machine, or a network. */
  readonly reach: "process" | "machine" | "network";
  /** Every exclusive grant carries a token greater than all before it. */
  readonly fencing: boolean;
  /** Waiters keep their position and are served first come, first served. */
  readonly queueing: boolean;
  /** Waiters are told; without it they learn by polling inside the engine's folder. */
  readonly notifications: boolean;
  /** Whether a claim lives by its own time to live or by that of a session it shares with others. */
  readonly ttl: "claim" | "session";
  /** A sticky holder is told when another claim waits for it, so that it need not give back what it may need again. */
  readonly tellsHolder?: boolean;
  /** How much later than its time to live a dead claim may be noticed. */
  readonly expiryGranularityMs: number;
  /** What the engine cannot promise, in sentences for people. */
  readonly caveats: readonly string[];
}

/** What the engine promises, and by which library it is spoken to. */
export interface Guarantees extends Traits {
  /**
   * The client library and its version, as in `"some-client 1.2.3"`, known from the first use on; `"given"` for a client
   * that was brought along. Absent where no library is needed.
   */
  readonly client?: string;
}

/** What is said in place of a library that the caller has chosen. */
export const GIVEN = "given";

/** What a caller asks for, once and again: a claim with the same id is one claim. */
export interface ClaimRequest {
  readonly name: string;
  readonly id: string;
  /** The ticket of my last answer: ask about that claim only, and never make a new one. */
  readonly ticket?: bigint | undefined;
  /** Never more than the capacity: the first claim of a queue is granted. */
  readonly weight: number;
  readonly capacity: number;
  readonly ttlMs: number;
  /** The ttl counts once, from the first granted answer; until then it keeps the position. */
  readonly fixed: boolean;
  /** After the first granted answer no other claim is let in earlier than this, not even by a release. */
  readonly minHoldMs: number;
  /** Stay in the queue if not granted. A claim that only tries draws no ticket when refused. */
  readonly queue: boolean;
  /** Refuse a new claim when this many already wait. */
  readonly maxWaiters?: number | undefined;
  readonly owner: Owner;
  readonly note: string;
  /** It may stay when its holder has finished: tell it when another claim comes behind it, or is refused because of it. */
  readonly sticky?: boolean | undefined;
  /** The claim of a caller that changes the number of permits to this one. */
  readonly resize?: number | undefined;
}

/** Why a claim is no longer there. */
export interface Gone {
  readonly state: "gone";
  readonly loss: "taken" | "forced" | "session";
  readonly reason?: string;
  readonly by?: string;
  readonly resize?: number;
}

export interface Held {
  readonly state: "held";
  readonly remainingMs: number;
  /** The claim is sticky, and others wait behind it. */
  readonly wanted?: true;
}

export interface Waiting {
  readonly state: "waiting";
  readonly remainingMs: number;
  /** When the soonest claim of this resource runs out, unless it is refreshed: worth asking again then. */
  readonly changeInMs: number;
}

/** What became of a claim. That another one holds the lock is an answer; only a failure of the engine is an error. */
export type Answer =
  | {
      readonly state: "granted";
      readonly ticket: bigint;
      readonly remainingMs: number;
      /** The claim is sticky, and from now on its process is told when another one asks. */
      readonly tells?: true;
    }
  | (Waiting & { readonly ticket: bigint })
  /** Nothing is kept. A waiter at an engine without a queue asks again when it is notified, or after this time. */
  | { readonly state: "refused"; readonly againInMs?: number }
  | { readonly state: "queue-full"; readonly waiters: number }
  | { readonly state: "capacity-mismatch"; readonly capacity: number }
  | Gone;

/** This claim could not be asked about, though others of the same request could: tried again, not a loss. */
export interface Unknown {
  readonly state: "unknown";
  readonly error: unknown;
}

/** What became of a claim that was to be renewed. */
export type Renewal = Held | Waiting | Gone | Unknown;

/** A claim to keep alive, with the time it gets from now on. */
export interface RenewRequest extends Claim {
  readonly ttlMs: number;
}

/** A claim is taken away, by an operator or by a caller that changes the number of permits: the victim is told why. */
export interface Force {
  /** What the victim is told. */
  readonly reason: string;
  /** Which operator it was. */
  readonly by?: string;
  /** How many permits there are now: the victim may enter the queue again with that number. */
  readonly resize?: number;
}

/** How a claim ends otherwise than by its holder: `unused`, no work was done under it, so its minHold means nothing; or by force. */
export type Ending = "unused" | Force;

/** What is told about a watched claim: nothing (ask again), a grant, that others want it, or the end of it. */
export type Notification =
  | { readonly state: "granted" | "wanted"; readonly ticket: bigint }
  | (Gone & { readonly ticket: bigint });

/** Called by the engine; without an argument it means: ask again. */
export type Notify = (notification?: Notification) => void;
/** Ends the watching: `notify` is not needed any more. */
export type Unwatch = () => void;

/** A claim as the engine lists it. */
export interface ClaimRecord extends Claim {
  readonly weight: number;
  readonly owner: Owner;
  readonly note: string;
  readonly resize?: number | undefined;
  /** Since the first granted answer; for a claim that waits, since it came. */
  readonly ageMs: number;
  readonly remainingMs: number;
}

/** The queue of one name as the engine lists it. */
export interface ResourceRecord {
  readonly name: string;
  readonly capacity: number;
  /** All live claims in ticket order; who of them holds follows from the rule. */
  readonly claims: readonly ClaimRecord[];
}

/**
 * What an engine has to do. A claim, a release, and the renewal of each claim are atomic on the server and idempotent by
 * claim id; `list` may read in pages. Each settles within a bound of the engine's own; failures are `LockError`s with the code `backend`.
 */
export interface Backend {
  /** What it promises. What it cannot promise is refused before the first claim. */
  readonly traits: Traits;
  /** See `Guarantees`. */
  readonly client?: string | undefined;
  /** Enter the queue, or refresh my claim, and ask. */
  claim(request: ClaimRequest): Promise<Answer>;
  /**
   * Extend claims that are still there; never creates one. Answers in the order of the requests; a failure
   * that concerns only some of them is their `unknown`.
   */
  renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]>;
  /** Leave the queue or give back the lock. Says whether the claim was still there. */
  release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean>;
  /** By name, with at most `limit` claims; or every name with that prefix that has claims. */
  list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord>;
  /**
   * Calls `notify` when the claim may have been admitted or was taken away. Called before the claim is sent; if
   * the subscription is not standing yet, the engine notifies once it stands, and again after every break.
   */
  watch(claim: { readonly name: string; readonly id: string }, notify: Notify): Unwatch;
  /** Where it can keep values beside locks. */
  readonly cells?: CellStore;
  /** Ends what the engine has opened itself. A client that was brought along stays open. */
  close(): Promise<void>;
}

/** A value as an engine keeps it. The version, from 1 on, grows with every change, also when a cell was gone. */
export interface StoredCell {
  readonly text: string;
  readonly version: bigint;
}

/** One write to a cell. */
export interface CellChange {
  /** `undefined` deletes it. */
  readonly text: string | undefined;
  /** Only if it still has this version; `null`: only if there is none; `undefined`: whatever it is. */
  readonly ifVersion?: bigint | null | undefined;
  /** Forgotten after this time, by the engine's clock; without it, never. */
  readonly keepMs?: number | undefined;
}

/** For engines that can keep small values: two operations, each one atomic step. */
export interface CellStore {
  /** `undefined` if there is none, or if its time is over. */
  read(name: string): Promise<StoredCell | undefined>;
  /** The new version; `undefined` if it was not as expected, and nothing was changed. */
  write(name: string, change: CellChange): Promise<bigint | undefined>;
}
