import type { Force, Notify, Unwatch } from "../../core/backend.js";
import { startTimer } from "../../core/timer.js";
import type { Subscription } from "./client.js";
import { within } from "./errors.js";

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** How often the subscription is asked for a sign of life, in times that an answer may take. */
const PULSE = 5;

/**
 * One subscription for the whole process, on a channel on which scripts tell it what it wants to know.
 * Messages may be lost whenever it breaks, so after every new subscription all who are watched ask again.
 */
export class Bell {
  readonly channel: string;
  readonly #watched = new Map<string, Notify>();
  readonly #timeoutMs: number;
  readonly #subscribe: (channel: string, onMessage: (message: string) => void) => Promise<Subscription>;
  #subscription: Subscription | undefined;
  #started = false;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;
  #pulse: NodeJS.Timeout | undefined;
  #failures = 0;

  constructor(
    channel: string,
    timeoutMs: number,
    subscribe: (channel: string, onMessage: (message: string) => void) => Promise<Subscription>,
  ) {
    this.channel = channel;
    this.#timeoutMs = timeoutMs;
    this.#subscribe = subscribe;
  }

  watch(id: string, ring: Notify): Unwatch {
    this.#watched.set(id, ring);
    if (!this.#started) {
      this.#started = true;
      void this.#stand();
    }
    return () => void this.#watched.delete(id);
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
    try {
      const subscription = await this.#subscribe(this.channel, (message) => this.#hear(message));
      this.#subscription = subscription;
      this.#failures = 0;
      if (this.#closed) return subscription.end();
      for (const ring of [...this.#watched.values()]) ring();
      this.#feelPulse(subscription);
      await subscription.broken;
      this.#subscription = undefined;
      clearTimeout(this.#pulse);
    } catch {
      // Not reachable now. Waiters still learn by the heartbeat of their places; this is tried again.
    }
    if (this.#closed) return;
    const delayMs = Math.min(FIRST_RETRY_MS * 2 ** this.#failures++, LONGEST_RETRY_MS);
    this.#retry = startTimer(() => void this.#stand(), delayMs).unref();
  }

  /**
   * Nothing is sent on it, so nobody would notice a server that fell silent; in a cluster it may be one that
   * no lock of ours needs.
   */
  #feelPulse(subscription: Subscription): void {
    this.#pulse = startTimer(async () => {
      // To refuse is to answer; and what is broken tells so by itself.
      const answered = subscription.ping().catch(() => undefined);
      await within(answered, this.#timeoutMs).catch(() => subscription.end());
      if (this.#subscription === subscription) this.#feelPulse(subscription);
    }, PULSE * this.#timeoutMs).unref();
  }

  /** `<ticket> <id> ` and `granted`, `ask`, or JSON of why it was forced away; anything else is noise. */
  #hear(message: string): void {
    const [, ticket, id, rest = ""] = /^(\d+) (\S+) (.*)$/s.exec(message) ?? [];
    const ring = id === undefined ? undefined : this.#watched.get(id);
    if (ring === undefined || ticket === undefined) return;
    const granted = rest === "granted";
    const force = granted ? undefined : parseForce(rest);
    if (granted) ring({ state: "granted", ticket: BigInt(ticket) });
    else if (rest === "ask") ring();
    else if (force !== undefined) ring({ state: "gone", loss: "forced", ticket: BigInt(ticket), ...force });
  }
}

/** What an operator said, as the scripts keep it. */
export function parseForce(json: string): Force | undefined {
  try {
    const { reason, by } = JSON.parse(json) as { reason?: unknown; by?: unknown };
    if (typeof reason !== "string") return undefined;
    return typeof by === "string" ? { reason, by } : { reason };
  } catch {
    // Not written by our scripts: anybody may publish on a channel.
    return undefined;
  }
}
