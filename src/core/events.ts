import { channel, tracingChannel } from "node:diagnostics_channel";
import { writable } from "./decimal-json.js";
import type { LockError, Loss } from "./errors.js";
import { plainText } from "./plain-text.js";

interface About {
  readonly name: string;
  /** The first part of the name: few enough to label metrics with. */
  readonly group: string;
}

/** What happened, in the order in which it happened in this process. */
export type LockEvent =
  | (About & { readonly type: "acquired"; readonly token: bigint; readonly waitedMs: number })
  | (About & {
      readonly type: "released";
      readonly token: bigint;
      readonly heldMs: number;
      readonly stillOurs: boolean;
    })
  | (About & {
      readonly type: "lost";
      readonly token: bigint;
      readonly loss: Loss;
      readonly heldMs: number;
      readonly reason?: string | undefined;
      readonly by?: string | undefined;
    })
  | (About & { readonly type: "timeout"; readonly waitedMs: number })
  | (About & { readonly type: "slow-wait"; readonly waitedMs: number })
  | (About & { readonly type: "place-lost"; readonly reason?: string | undefined })
  | (About & {
      readonly type: "forced";
      readonly token: bigint;
      readonly reason: string;
      readonly by?: string | undefined;
    })
  | (About & { readonly type: "release-failed"; readonly error: LockError })
  | (About & { readonly type: "campaign-failed"; readonly error: LockError })
  | { readonly type: "renew-failed"; readonly claims: number; readonly error: LockError };

export type LockEventListener = (event: LockEvent) => void;

/** The context of the tracing channels `locktender:acquire` and `locktender:hold`. */
export interface TraceContext {
  readonly name: string;
  readonly group: string;
  readonly engine: string;
  token?: bigint;
}

export const traceAcquire = tracingChannel<string, TraceContext>("locktender:acquire");
export const traceHold = tracingChannel<string, TraceContext>("locktender:hold");

/** Tells the caller's listener and the channel `locktender:<type>`. */
export class Events {
  readonly #listener: LockEventListener | undefined;

  constructor(listener?: LockEventListener) {
    this.#listener = listener;
  }

  /** Whether anybody listens: what happens at every grant is not even put together for nobody. */
  wants(type: LockEvent["type"]): boolean {
    return this.#listener !== undefined || CHANNELS[type].hasSubscribers;
  }

  emit(record: LockEvent): void {
    const topic = CHANNELS[record.type];
    if (!this.wants(record.type)) return;
    const event = writable(record);
    if (topic.hasSubscribers) topic.publish(event);
    if (this.#listener === undefined) return;
    // A listener that throws must not break a lock; whoever wrote it still wants to know.
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
      "place-lost",
      "campaign-failed",
      "forced",
      "release-failed",
      "renew-failed",
    ] satisfies LockEvent["type"][]
  ).map((type) => [type, channel(`locktender:${type}`)]),
) as Record<LockEvent["type"], ReturnType<typeof channel>>;
