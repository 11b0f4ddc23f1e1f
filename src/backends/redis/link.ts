import { Patience } from "../../core/patience.js";
import type { RedisClient } from "./client.js";
import { clearer, closedError, lateError, redisError } from "./errors.js";
import { openClient, refuseEviction } from "./open.js";
import type { RedisSettings } from "./options.js";
import { Succession } from "./succession.js";
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
  readonly #succession: Succession;
  readonly #failed = (error: unknown) => redisError(clearer(error, this.#latest?.trouble?.()), this.#where);
  #client: Promise<RedisClient> | undefined;
  #ready: RedisClient | undefined;
  #latest: RedisClient | undefined;
  #closed = false;

  constructor(settings: RedisSettings, onReplaced: () => void) {
    this.#settings = settings;
    this.#where = settings.address === undefined ? "the given client" : describeAddress(settings.address);
    this.#onReplaced = onReplaced;
    this.#patience = new Patience(settings.timeoutMs);
    this.#succession = new Succession(
      settings.timeoutMs,
      // The host that the URL names may be just the one that is silent.
      (old) => openClient(settings, old.nodes()),
      (successor) => this.#install(successor),
    );
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
    // From here on no successor is installed, so this client is the last.
    const succession = this.#succession.close();
    const client = await this.#client?.catch(() => undefined);
    await client?.close();
    await succession;
  }

  #open(): Promise<RedisClient> {
    if (this.#closed) return Promise.reject(closedError());
    this.#client ??= this.#connect().catch((error: unknown) => {
      this.#client = undefined;
      throw this.#failed(error);
    });
    return this.#client;
  }

  async #connect(): Promise<RedisClient> {
    const { acceptEviction, timeoutMs } = this.#settings;
    const client = await openClient(this.#settings);
    this.#latest = client;
    try {
      if (!acceptEviction) await refuseEviction(client, timeoutMs, this.#where);
    } catch (error) {
      await client.close();
      throw error;
    }
    this.#ready = client;
    return client;
  }

  #replace(stuck: RedisClient): void {
    if (this.#ready !== stuck || this.#settings.client !== undefined) return;
    if (stuck.clustered) {
      this.#succession.begin(stuck);
      return;
    }
    this.#ready = undefined;
    this.#client = undefined;
    // It does not answer; closing it may not either, and nobody waits for that.
    stuck.close().catch(() => undefined);
    this.#onReplaced();
  }

  #install(successor: RedisClient): void {
    this.#ready = successor;
    this.#latest = successor;
    this.#client = Promise.resolve(successor);
    this.#onReplaced();
  }
}
