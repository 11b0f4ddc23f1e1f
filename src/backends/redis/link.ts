import { LockError } from "../../core/errors.js";
import type { RedisClient } from "./client.js";
import { closedError, lateError, redisError, within } from "./errors.js";
import { fromIoredis, isIoredis, openIoredis } from "./ioredis.js";
import { fromNodeRedis, type NodeRedisLike, openNodeRedis } from "./node-redis.js";
import type { RedisSettings } from "./options.js";
import { Patience } from "./patience.js";
import { describeAddress } from "./url.js";

/**
 * The way to the server: opened on first use, checked once, bounded in time. A client of our own that
 * no longer answers is replaced, because a dead TCP connection may take a quarter of an hour to say so.
 */
export class RedisLink {
  readonly #settings: RedisSettings;
  readonly #where: string;
  readonly #onReplaced: () => void;
  readonly #patience: Patience;
  readonly #failed = (error: unknown) => redisError(error, this.#where);
  #client: Promise<RedisClient> | undefined;
  #ready: RedisClient | undefined;
  #closed = false;

  constructor(settings: RedisSettings, onReplaced: () => void) {
    this.#settings = settings;
    this.#where = settings.address === undefined ? "the given client" : describeAddress(settings.address);
    this.#onReplaced = onReplaced;
    this.#patience = new Patience(settings.timeoutMs);
  }

  use<T>(work: (client: RedisClient) => Promise<T>): Promise<T> {
    const client = this.#ready;
    return client === undefined
      ? this.#open().then((opened) => this.#bound(opened, work))
      : this.#bound(client, work);
  }

  /** For what bounds itself: its failure says nothing about the connection for commands. */
  async client(): Promise<RedisClient> {
    return this.#ready ?? this.#open();
  }

  #bound<T>(client: RedisClient, work: (client: RedisClient) => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(closedError());
    return this.#patience.bound(work(client), this.#failed, () => {
      this.#replace(client);
      return lateError(this.#patience.timeoutMs, this.#where);
    });
  }

  /** The batches of a scan, each bounded like any request. */
  async *each<T>(batches: AsyncIterable<T>): AsyncIterable<T> {
    const iterator = batches[Symbol.asyncIterator]();
    for (;;) {
      const { done, value } = await this.use(() => iterator.next());
      if (done) return;
      yield value;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#ready = undefined;
    const client = await this.#client?.catch(() => undefined);
    await client?.close();
  }

  #open(): Promise<RedisClient> {
    if (this.#closed) return Promise.reject(closedError());
    this.#client ??= this.#connect().catch((error: unknown) => {
      this.#client = undefined;
      throw redisError(error, this.#where);
    });
    return this.#client;
  }

  async #connect(): Promise<RedisClient> {
    const client = await this.#create();
    try {
      if (!this.#settings.acceptEviction) await this.#refuseEviction(client);
    } catch (error) {
      await client.close();
      throw error;
    }
    this.#ready = client;
    return client;
  }

  async #create(): Promise<RedisClient> {
    const { client, address, library, timeoutMs } = this.#settings;
    // A client that we did not open is not ours to close.
    const leaveOpen = async () => {};
    if (client !== undefined) {
      return isIoredis(client)
        ? fromIoredis(client, timeoutMs, leaveOpen)
        : fromNodeRedis(client as NodeRedisLike, timeoutMs, leaveOpen);
    }
    if (address === undefined) throw new Error("neither an address nor a client");
    const use = library ?? ((await isInstalled("ioredis")) ? "ioredis" : "redis");
    if (!(await isInstalled(use))) {
      const packages = library === undefined ? "ioredis or redis" : library;
      throw new LockError(
        "unsupported",
        `a redis:// URL needs a client library. Install one: npm install ${packages}`,
      );
    }
    return use === "ioredis" ? openIoredis(address, timeoutMs) : openNodeRedis(address, timeoutMs);
  }

  /** Eviction takes keys with an expiry first: that is, locks. */
  async #refuseEviction(client: RedisClient): Promise<void> {
    let infos: readonly string[];
    try {
      infos = await within(client.memoryInfo(), this.#settings.timeoutMs);
    } catch (error) {
      // Some hosts forbid INFO. Then the policy cannot be known, and nothing can be said about it.
      if (error instanceof Error && /NOPERM|unknown command/i.test(error.message)) return;
      throw error;
    }
    const policy = infos
      .map((info) => /maxmemory_policy:(\S+)/.exec(String(info))?.[1])
      .find((found) => found !== undefined && found !== "noeviction");
    if (policy === undefined) return;
    throw new LockError(
      "unsupported",
      `Redis at ${this.#where} has maxmemory-policy ${policy}, so it may evict locks when its memory is full. Set maxmemory-policy noeviction, use a server of their own for locks, or accept it with { eviction: "accept" }.`,
    );
  }

  #replace(stuck: RedisClient): void {
    if (this.#ready !== stuck || this.#settings.client !== undefined) return;
    // In a cluster one node that does not answer is no reason to hang up on the others.
    if (stuck.clustered) return;
    this.#ready = undefined;
    this.#client = undefined;
    // It does not answer; closing it may not either, and nobody waits for that.
    stuck.close().catch(() => undefined);
    this.#onReplaced();
  }
}

async function isInstalled(library: "ioredis" | "redis"): Promise<boolean> {
  try {
    await (library === "ioredis" ? import("ioredis") : import("redis"));
    return true;
  } catch {
    return false;
  }
}
