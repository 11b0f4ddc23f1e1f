import { nowMs } from "../../core/clock.js";
import { Patience } from "../../core/patience.js";
import type { RedisClient } from "./client.js";
import { clearer, closedError, isReadOnly, lateError, redisError } from "./errors.js";
import { openClient, refuseEviction } from "./open.js";
import type { RedisSettings } from "./options.js";
import { Succession } from "./succession.js";
import { describeAddress } from "./url.js";

/** How long a client that leads to a replica is left alone: so long at first, then twice as long, and so on. */
const FIRST_REST_MS = 50;
const LONGEST_REST_MS = 500;

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
  readonly #failed = (error: unknown) =>
    redisError(clearer(error, this.#latest?.trouble?.()), this.#where, this.#settings.client !== undefined);
  #client: Promise<RedisClient> | undefined;
  #ready: RedisClient | undefined;
  #latest: RedisClient | undefined;
  #closed = false;
  /** The client was replaced because it led to a replica, and the new one has written nothing yet. */
  #isMoving = false;
  #restMs = 0;
  #restUntilMs = -Infinity;

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

  /** Which library the client is of, once there is one. */
  get library(): string | undefined {
    return this.#latest?.library;
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
    const failed = (error: unknown) => this.#moved(client, error, work) ?? this.#failed(error);
    return this.#ask(client, work, failed);
  }

  #ask<T>(
    client: RedisClient,
    work: (client: RedisClient) => Promise<T>,
    failed: (error: unknown) => Error | Promise<T>,
  ): Promise<T> {
    let asked: Promise<T>;
    try {
      asked = work(client);
    } catch (error) {
      return Promise.reject(this.#failed(error));
    }
    return this.#patience.bound(asked, failed, () => {
      this.#replace(client);
      return lateError(this.#patience.timeoutMs, this.#where);
    });
  }

  /**
   * After a switchover connections stay open to the old primary, which is a replica by now: the address is looked
   * up again and the request repeated, once. A wait goes on trying by itself. While the address still leads to the
   * old primary, it is looked up ever more seldom.
   */
  #moved<T>(
    client: RedisClient,
    error: unknown,
    work: (client: RedisClient) => Promise<T>,
  ): Promise<T> | undefined {
    if (client.clustered || this.#settings.client !== undefined || !isReadOnly(error)) return undefined;
    if (this.#ready === client) {
      const atMs = nowMs();
      if (atMs < this.#restUntilMs) return undefined;
      this.#restMs = this.#isMoving ? Math.min(2 * this.#restMs, LONGEST_REST_MS) : FIRST_REST_MS;
      this.#restUntilMs = atMs + this.#restMs;
      this.#isMoving = true;
      this.#drop(client);
    }
    return this.#open().then((opened) => this.#ask(opened, work, this.#failed));
  }

  /**
   * An answer has shown that the server writes. Waiters that were told to ask before that would only be refused by
   * the old primary. What only reads shows nothing: a replica answers that, too.
   */
  wrote(): void {
    if (!this.#isMoving) return;
    this.#isMoving = false;
    this.#restUntilMs = -Infinity;
    this.#onReplaced();
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
    const client = await openClient(this.#settings);
    this.#latest = client;
    try {
      if (!this.#settings.acceptEviction) await refuseEviction(client, this.#settings, this.#where);
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
    this.#drop(stuck);
    this.#onReplaced();
  }

  #drop(client: RedisClient): void {
    this.#ready = undefined;
    this.#client = undefined;
    // If it does not answer, closing it may not either, and nothing waits for that.
    client.close().catch(() => undefined);
  }

  #install(successor: RedisClient): void {
    this.#ready = successor;
    this.#latest = successor;
    this.#client = Promise.resolve(successor);
    this.#onReplaced();
  }
}
