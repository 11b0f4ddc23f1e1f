import { channel, tracingChannel } from "node:diagnostics_channel";
import type { LockError, Loss } from "./errors.js";
import { plainText } from "./plain-text.js";

/**
 * What a name is used as: `mutex`, `read` or `write` side of a read-write lock, `semaphore`, `election`, `once`, or `web`
 * for Web Locks.
 */
export type LockKind = "mutex" | "read" | "write" | "semaphore" | "election" | "once" | "web";

/** What an event is about. */
export interface About {
  /** As `guarantees.engine` names it. */
  readonly engine: string;
  /** The whole name of the lock, with its scope. */
  readonly name: string;
  /** The first part of the name: few enough to label metrics with. */
  readonly group: string;
  /** What the name is used as. */
  readonly kind: LockKind;
}

/**
 * What happened, in the order in which it happened in this process. Tokens are decimal strings here, which every
 * logger can write. New types may be added in a minor version: keep a default branch.
 *
 * - `acquired`, `released`: a lock was granted, or given back
 * - `lost`: a lease was lost; alert on all but the loss `closed`, which is a shutdown
 * - `timeout`: a wait was too long
 * - `slow-wait`: a caller has waited for one ttl, and waits on
 * - `queue-position-lost`: the claim of a waiter was gone, and it entered the queue again
 * - `forced`: this process took a lock away
 * - `leaked`: a lease was garbage-collected without a release
 * - `long-hold`: a lease has been held for as long as `longHold`
 * - `renew-failed`, `release-failed`, `campaign-failed`: the engine did not answer; it is tried again
 */
export type LockEvent =
  | (About & {
      /** A lock was granted. */
      readonly type: "acquired";
      /** The token of the lease. */
      readonly token: string;
      /** How long the caller has waited. */
      readonly waitedMs: number;
    })
  | (About & {
      /** A lease was released. */
      readonly type: "released";
      /** The token of the lease. */
      readonly token: string;
      /** Since the grant. */
      readonly heldMs: number;
      /** Whether the engine still had the claim. */
      readonly wasHeld: boolean;
    })
  | (About & {
      /** A lease was lost. Alert on all but the loss `closed`, which is a shutdown. */
      readonly type: "lost";
      /** The token of the lease. */
      readonly token: string;
      /** Why it was lost. */
      readonly loss: Loss;
      /** Since the grant. */
      readonly heldMs: number;
      /** What the operator said, if it was forced away. */
      readonly reason?: string | undefined;
      /** The operator that took it away, if it said so. */
      readonly by?: string | undefined;
    })
  | (About & {
      /** A wait was too long: its caller gets a `LockTimeoutError`. */
      readonly type: "timeout";
      /** How long the caller has waited. */
      readonly waitedMs: number;
    })
  | (About & {
      /** A caller has waited for one ttl, and waits on. */
      readonly type: "slow-wait";
      /** How long it has waited so far. */
      readonly waitedMs: number;
    })
  | (About & {
      /** The claim of a waiter was gone, and it entered the queue again at the end. */
      readonly type: "queue-position-lost";
      /** What an operator said, if it was taken away. */
      readonly reason?: string | undefined;
    })
  | (About & {
      /** This process took a lock away from its holder. */
      readonly type: "forced";
      /** The token of the victim. */
      readonly token: string;
      /** As it was given to `forceRelease`. */
      readonly reason: string;
      /** As it was given to `forceRelease`. */
      readonly by?: string | undefined;
    })
  | (About & {
      /** A lease was garbage-collected without a release. */
      readonly type: "leaked";
      /** The token of the lease. */
      readonly token: string;
      /** Since the grant. */
      readonly heldMs: number;
      /** By `onLeak: "release"`. */
      readonly released: boolean;
      /** Where it was acquired, with `captureStacks`. */
      readonly stack?: string | undefined;
    })
  | (About & {
      /** A lease has been held for as long as `longHold`, and still is. */
      readonly type: "long-hold";
      /** The token of the lease. */
      readonly token: string;
      /** Since the grant. */
      readonly heldMs: number;
    })
  | (About & {
      /** A lock could not be given back; it is tried again until its ttl ends it. */
      readonly type: "release-failed";
      /** What the engine said. */
      readonly error: LockError;
    })
  | (About & {
      /** The engine did not answer a candidate; it goes on campaigning. */
      readonly type: "campaign-failed";
      /** What the engine said. */
      readonly error: LockError;
    })
  | {
      /** The engine did not answer a renewal; it is tried again until the time of the leases is up. */
      readonly type: "renew-failed";
      /** As `guarantees.engine` names it. */
      readonly engine: string;
      /** How many claims were to be renewed. */
      readonly claims: number;
      /** What the engine said. */
      readonly error: LockError;
    };

/** Gets every event of a connection. One that throws breaks no lock: Node.js prints a warning. */
export type LockEventListener = (event: LockEvent) => void;

/** The context of the tracing channels `locktender:acquire` and `locktender:hold`. */
export interface TraceContext extends About {
  token?: bigint;
}

/** What we use of a tracing channel. Its type has other parameters with each release of @types/node. */
interface TraceChannel {
  readonly hasSubscribers: boolean;
  tracePromise<T>(work: () => Promise<T>, context: TraceContext): Promise<T>;
}

export const traceAcquire: TraceChannel = tracingChannel("locktender:acquire");
export const traceHold: TraceChannel = tracingChannel("locktender:hold");

/** Tells the caller's listener and the channel `locktender:<type>`. */
export class Events {
  readonly #listener: LockEventListener | undefined;

  constructor(listener?: LockEventListener) {
    this.#listener = listener;
  }

  /** Whether there is a listener: without one, what happens at every grant is not even put together. */
  wants(type: LockEvent["type"]): boolean {
    return this.#listener !== undefined || CHANNELS[type].hasSubscribers;
  }

  emit(event: LockEvent): void {
    const topic = CHANNELS[event.type];
    if (!this.wants(event.type)) return;
    if (topic.hasSubscribers) topic.publish(event);
    if (this.#listener === undefined) return;
    // A listener that throws must not break a lock; its author still wants to know.
    const warn = (error: unknown) =>
      process.emitWarning(
        `locktender: onEvent threw on "${event.type}": ${plainText(String(error))}`,
        "LocktenderWarning",
      );
    try {
      const result: unknown = this.#listener(event);
      if (result instanceof Promise) result.catch(warn);
    } catch (error) {
      warn(error);
    }
  }
}

const CHANNELS = Object.fromEntries(
  (
    [
      "acquired",
      "released",
      "lost",
      "timeout",
      "slow-wait",
      "queue-position-lost",
      "campaign-failed",
      "leaked",
      "long-hold",
      "forced",
      "release-failed",
      "renew-failed",
    ] satisfies LockEvent["type"][]
  ).map((type) => [type, channel(`locktender:${type}`)]),
) as Record<LockEvent["type"], ReturnType<typeof channel>>;
