import { randomBytes } from "node:crypto";
import type { Notify, Unwatch } from "../../core/backend.js";
import { ShortLivedMap } from "../../core/short-lived.js";
import { startTimer } from "../../core/timer.js";
import { readMessage } from "../../engine-kit/replies.js";
import { Backoff } from "../../engine-kit/request-timeout.js";
import type { RedisClient, Subscription } from "./client.js";
import { within } from "./errors.js";

/** A new channel, on which one process is notified: scripts know which claims they let in, and notify no others. */
export function notificationChannel(prefix: string): string {
  return `${prefix}:bell:${randomBytes(9).toString("base64url")}`;
}

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** How often the subscription is asked for a sign of life, in times that an answer may take. */
const PULSE = 5;

/**
 * One subscription for the whole process, on a channel on which scripts tell it what it wants to know.
 * Messages may be lost whenever it breaks, so after every new subscription all watched claims ask again. One that
 * breaks while no claim is watched is made anew with the next claim.
 */
export class Notifications {
  readonly channel: string;
  readonly #watched = new ShortLivedMap<string, Notify>();
  readonly #timeoutMs: number;
  readonly #subscribe: RedisClient["subscribe"];
  #subscription: Subscription | undefined;
  #started = false;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;
  #pulse: NodeJS.Timeout | undefined;
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);

  constructor(channel: string, timeoutMs: number, subscribe: RedisClient["subscribe"]) {
    this.channel = channel;
    this.#timeoutMs = timeoutMs;
    this.#subscribe = subscribe;
  }

  watch(id: string, notify: Notify): Unwatch {
    this.#watched.set(id, notify);
    if (!this.#started) {
      this.#started = true;
      void this.#stand();
    }
    return () => void this.#watched.delete(id);
  }

  /** Whether messages arrive, as far as is known here. */
  get stand(): boolean {
    return this.#subscription !== undefined;
  }

  /** Makes the subscription stand again after it was found dead. */
  renew(): void {
    this.#subscription?.end();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#pulse);
    this.#watched.clear();
    this.#subscription?.end();
  }

  async #stand(): Promise<void> {
    if (this.#closed) return;
    if (this.#watched.size === 0) {
      this.#started = false;
      return;
    }
    try {
      const subscription = await this.#subscribe(this.channel, (message) => this.#hear(message));
      this.#subscription = subscription;
      this.#backoff.reset();
      if (this.#closed) return subscription.end();
      for (const notify of [...this.#watched.values()]) notify();
      this.#checkHeartbeat(subscription);
      await subscription.broken;
      this.#subscription = undefined;
      clearTimeout(this.#pulse);
    } catch {
      // Not reachable now. Waiters still learn by the renewal of their claims; this is tried again.
    }
    if (this.#closed) return;
    const delayMs = this.#backoff.failedMs();
    this.#retry = startTimer(() => void this.#stand(), delayMs).unref();
  }

  /**
   * Nothing is sent on it, so a server that fell silent would not be noticed; in a cluster it may be one that
   * no lock of ours needs.
   */
  #checkHeartbeat(subscription: Subscription): void {
    this.#pulse = startTimer(async () => {
      // To refuse is to answer; and what is broken tells so by itself.
      const answered = subscription.ping().catch(() => undefined);
      await within(answered, this.#timeoutMs, true).catch(() => subscription.end());
      if (this.#subscription === subscription) this.#checkHeartbeat(subscription);
    }, PULSE * this.#timeoutMs).unref();
  }

  #hear(message: string): void {
    const told = readMessage(message);
    if (told !== undefined) this.#watched.get(told.id)?.(told.notification);
  }
}
