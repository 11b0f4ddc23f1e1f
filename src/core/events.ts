import { channel, tracingChannel } from "node:diagnostics_channel";
import type { LockError, Loss } from "./errors.js";
import { plainText } from "./plain-text.js";

/** What a name is used as. */
export type LockKind = "mutex" | "read" | "write" | "semaphore" | "election" | "once" | "web";

/** What an event is about. */
export interface About {
  /** As `guarantees.engine` names it. */
  readonly engine: string;
  readonly name: string;
  /** The first part of the name: few enough to label metrics with. */
  readonly group: string;
  readonly kind: LockKind;
}

/**
 * What happened, in the order in which it happened in this process. Tokens are decimal strings here, which every
 * logger can write. New types may be added in a minor version: keep a default branch.
 */
export type LockEvent =
  | (About & { readonly type: "acquired"; readonly token: string; readonly waitedMs: number })
  | (About & {
      readonly type: "released";
      readonly token: string;
      readonly heldMs: number;
      /** Whether the engine still had the claim. */
      readonly wasHeld: boolean;
    })
  | (About & {
      readonly type: "lost";
      readonly token: string;
      readonly loss: Loss;
      readonly heldMs: number;
      readonly reason?: string | undefined;
      readonly by?: string | undefined;
    })
  | (About & { readonly type: "timeout"; readonly waitedMs: number })
  | (About & { readonly type: "slow-wait"; readonly waitedMs: number })
  | (About & { readonly type: "queue-position-lost"; readonly reason?: string | undefined })
  | (About & {
      readonly type: "forced";
      readonly token: string;
      readonly reason: string;
      readonly by?: string | undefined;
    })
  /** A lease was garbage-collected without a release. */
  | (About & {
      readonly type: "leaked";
      readonly token: string;
      readonly heldMs: number;
      /** By `onLeak: "release"`. */
      readonly released: boolean;
      /** Where it was acquired, with `captureStacks`. */
      readonly stack?: string | undefined;
    })
  /** A lease has been held for as long as `longHold`. */
  | (About & { readonly type: "long-hold"; readonly token: string; readonly heldMs: number })
  | (About & { readonly type: "release-failed"; readonly error: LockError })
  | (About & { readonly type: "campaign-failed"; readonly error: LockError })
  | {
      readonly type: "renew-failed";
      readonly engine: string;
      readonly claims: number;
      readonly error: LockError;
    };

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
