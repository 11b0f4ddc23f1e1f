import { nowMs } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import { Backoff } from "../../engine-kit/request-timeout.js";
import type { RedisClient } from "./client.js";

/** How long a new client is left alone, in times that a request may take: once at first, and doubled. */
const LONGEST_REST = 10;

/**
 * A cluster client of which one node does not answer gets a successor: by itself it may take a quarter of an
 * hour to notice that another node serves those slots. It is no reason to hang up on the other nodes, so it
 * goes on until the successor is connected, and is closed when all that it was asked has been answered.
 */
export class ClusterFailover {
  readonly #timeoutMs: number;
  readonly #open: (old: RedisClient) => Promise<RedisClient>;
  readonly #install: (successor: RedisClient) => void;
  readonly #retired = new Map<RedisClient, NodeJS.Timeout>();
  readonly #rest: Backoff;
  #coming: Promise<void> | undefined;
  #restedAtMs = -Infinity;
  #closed = false;

  constructor(
    timeoutMs: number,
    open: (old: RedisClient) => Promise<RedisClient>,
    install: (successor: RedisClient) => void,
  ) {
    this.#timeoutMs = timeoutMs;
    this.#rest = new Backoff(timeoutMs, LONGEST_REST * timeoutMs);
    this.#open = open;
    this.#install = install;
  }

  /** One at a time, and ever more seldom: a node that stays silent, with no other in its place, costs little. */
  begin(old: RedisClient): void {
    if (this.#closed || this.#coming !== undefined || nowMs() < this.#restedAtMs) return;
    if (nowMs() > this.#restedAtMs + LONGEST_REST * this.#timeoutMs) this.#rest.reset();
    const restMs = this.#rest.failedMs();
    this.#coming = this.#succeed(old).finally(() => {
      this.#coming = undefined;
      this.#restedAtMs = nowMs() + restMs;
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#coming;
    await Promise.all([...this.#retired.keys()].map((client) => this.#end(client)));
  }

  async #succeed(old: RedisClient): Promise<void> {
    let successor: RedisClient;
    try {
      successor = await this.#open(old);
    } catch {
      // The old one is still better than none. The next request without an answer tries again.
      return;
    }
    if (this.#closed) return successor.close();
    this.#install(successor);
    this.#retired.set(
      old,
      startTimer(() => void this.#end(old), this.#timeoutMs),
    );
  }

  async #end(retired: RedisClient): Promise<void> {
    clearTimeout(this.#retired.get(retired));
    this.#retired.delete(retired);
    // It may be stuck in every way; nothing depends on it any more.
    await retired.close().catch(() => undefined);
  }
}
