import { isTimeToRepeat, nowMs } from "../../core/clock.js";
import { backendError, type LockError } from "../../core/errors.js";
import { Backoff, RequestTimeout } from "../../engine-kit/request-timeout.js";
import { describeHosts } from "../../engine-kit/url.js";
import { type RedisClient, type Subscription, scanNames } from "./client.js";
import { ClusterFailover } from "./cluster-failover.js";
import { clearer, closedError, isBroken, isReadOnly, isUnreachable, redisError } from "./errors.js";
import { openClient, refuseEviction } from "./library.js";
import type { RedisAddress, RedisSettings } from "./options.js";

/** How long a client that leads to a replica is left alone: so long at first, then twice as long, and so on. */
const FIRST_REST_MS = 50;
const LONGEST_REST_MS = 500;
/** From the second failed attempt to connect on, the next one is made so much later; with each failure by as much more. */
const RETRY_MS = 50;
const LONGEST_RETRY_MS = 1_000;

/**
 * The way to the server: opened on first use, checked once, bounded in time. A client of our own that no longer
 * answers is replaced, because a dead TCP connection may take a quarter of an hour to say so. One whose connection
 * has ended is forgotten, and the next request opens a new one: what connects again by itself would keep a process
 * alive that waits for nothing.
 */
export class RedisConnection {
  readonly #settings: RedisSettings;
  readonly #where: string;
  readonly #onReplaced: () => void;
  readonly #requestTimeout: RequestTimeout;
  readonly #failover: ClusterFailover;
  /** What a client has thrown, as an error of ours. */
  readonly errorOf = (error: unknown): LockError => {
    // Of the node that serves these slots by now this client may know nothing.
    if (this.#ready?.clustered && isUnreachable(error)) this.#replace(this.#ready);
    return redisError(clearer(error, this.#latest?.trouble?.()), this.#where, this.#settings);
  };
  #client: Promise<RedisClient> | undefined;
  #refusesSlots = false;
  #ready: RedisClient | undefined;
  #latest: RedisClient | undefined;
  #closed = false;
  /** The client was replaced because it led to a replica, and the new one has written nothing yet. */
  #isMoving = false;
  readonly #rest = new Backoff(FIRST_REST_MS, LONGEST_REST_MS);
  #restUntilMs = -Infinity;
  /** Why it could not be opened, how many times in a row, and when the next attempt is made. */
  #failure: unknown;
  #failures = 0;
  #retryAtMs = -Infinity;
  /** The client has ended: the next one may lead to another server, and the subscription has to follow. */
  #hasEnded = false;

  constructor(settings: RedisSettings, onReplaced: () => void) {
    this.#settings = settings;
    this.#where = settings.address === undefined ? "the given client" : describe(settings.address);
    this.#onReplaced = onReplaced;
    this.#requestTimeout = new RequestTimeout(settings.timeoutMs);
    this.#failover = new ClusterFailover(
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

  /** Whether keys of several names may not meet in one call: in a cluster, and at a server that has refused that. */
  get keepsNamesApart(): boolean {
    return this.#refusesSlots || (this.#latest?.clustered ?? this.#settings.address?.kind === "cluster");
  }

  /** The server has refused keys of several slots. */
  keepNamesApart(): void {
    this.#refusesSlots = true;
  }

  /**
   * `repeatable`: the work may be done once more when its connection breaks. The server may have closed an idle
   * connection long ago, and the next request is the first to learn of it. The time for an answer counts from
   * `sinceMs`, if it is given and the client is there.
   */
  use<T>(work: (client: RedisClient) => Promise<T>, repeatable = true, sinceMs?: number): Promise<T> {
    const client = this.#ready;
    if (client !== undefined) return this.#bound(client, work, repeatable, sinceMs);
    return this.#opened().then((opened) => this.#bound(opened, work, repeatable));
  }

  /** What was begun before may have failed while this process was frozen. */
  #opened(): Promise<RedisClient> {
    const startMs = nowMs();
    const again = (failure: unknown) => {
      if (isTimeToRepeat(startMs, this.#settings.timeoutMs)) return this.#open();
      throw failure;
    };
    return this.#client?.catch(again) ?? this.#open();
  }

  /** For work with a timeout of its own: its failure says nothing about the connection for commands. */
  async client(): Promise<RedisClient> {
    return this.#ready ?? this.#open();
  }

  #bound<T>(
    client: RedisClient,
    work: (client: RedisClient) => Promise<T>,
    repeatable: boolean,
    startMs = nowMs(),
  ): Promise<T> {
    if (this.#closed) return Promise.reject(closedError());
    const failed = (error: unknown) => {
      const isTime = repeatable && isTimeToRepeat(startMs, this.#settings.timeoutMs);
      const isRepeated = this.#hasMoved(client, error) || (this.#hasBroken(client, error) && isTime);
      if (!isRepeated) return this.errorOf(error);
      return this.#open().then((opened) => this.#ask(opened, work, this.errorOf));
    };
    return this.#ask(client, work, failed, startMs);
  }

  #ask<T>(
    client: RedisClient,
    work: (client: RedisClient) => Promise<T>,
    failed: (error: unknown) => Error | Promise<T>,
    sinceMs?: number,
  ): Promise<T> {
    let asked: Promise<T>;
    try {
      asked = work(client);
    } catch (error) {
      return Promise.reject(this.errorOf(error));
    }
    const late = () => {
      this.#replace(client);
      const text = `Redis at ${this.#where}: no answer within ${this.#settings.timeoutMs} ms`;
      return backendError(text, { retryable: true });
    };
    return this.#requestTimeout.bound(asked, failed, late, sinceMs);
  }

  /**
   * After a switchover connections stay open to the old primary, which is a replica by now: the address is looked
   * up again and the request repeated, once. A wait goes on trying by itself. While the address still leads to the
   * old primary, it is looked up ever more seldom.
   */
  #hasMoved(client: RedisClient, error: unknown): boolean {
    if (client.clustered || this.#settings.client !== undefined || !isReadOnly(error)) return false;
    if (this.#ready === client) {
      const atMs = nowMs();
      if (atMs < this.#restUntilMs) return false;
      if (!this.#isMoving) this.#rest.reset();
      this.#restUntilMs = atMs + this.#rest.failedMs();
      this.#isMoving = true;
      this.#drop(client);
    }
    return true;
  }

  /** A connection of ours has broken: the request can be repeated on a new one, once. */
  #hasBroken(client: RedisClient, error: unknown): boolean {
    if (this.#settings.client !== undefined || !isBroken(error)) return false;
    // A cluster's client connects to its nodes as they are needed.
    if (!client.clustered) this.#end(client);
    return true;
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

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<Subscription> {
    return (await this.client()).subscribe(channel, onMessage);
  }

  /** The names of the locks that begin so, in batches, each bounded like any request; may repeat. */
  async *scan(prefix: string, namePrefix: string): AsyncIterable<readonly string[]> {
    let batches: AsyncIterator<readonly string[]> | undefined;
    for (;;) {
      const isFirst = batches === undefined;
      const { done, value } = await this.use((client) => {
        if (isFirst || batches === undefined)
          batches = scanNames(client, prefix, namePrefix)[Symbol.asyncIterator]();
        return batches.next();
      }, isFirst);
      if (done) return;
      yield value;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#ready = undefined;
    // From here on no successor is installed, so this client is the last.
    const succession = this.#failover.close();
    const client = await this.#client?.catch(() => undefined);
    await client?.close();
    await succession;
  }

  #open(): Promise<RedisClient> {
    if (this.#closed) return Promise.reject(closedError());
    if (this.#client === undefined && nowMs() < this.#retryAtMs) return Promise.reject(this.#failure);
    this.#client ??= this.#connect().catch((error: unknown) => {
      this.#client = undefined;
      this.#failure = this.errorOf(error);
      // While nothing is known of a server, each request shows how it is; a client of the caller's connects by itself.
      if (this.#latest !== undefined && this.#settings.client === undefined)
        this.#retryAtMs = nowMs() + Math.min(this.#failures++ * RETRY_MS, LONGEST_RETRY_MS);
      throw this.#failure;
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
    this.#failures = 0;
    this.#install(client, this.#hasEnded);
    return client;
  }

  #replace(stuck: RedisClient): void {
    if (this.#ready !== stuck || this.#settings.client !== undefined) return;
    if (stuck.clustered) {
      this.#failover.begin(stuck);
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

  #install(client: RedisClient, replaces = true): void {
    this.#ready = client;
    this.#latest = client;
    this.#client = Promise.resolve(client);
    this.#hasEnded = false;
    void client.ended?.then(() => this.#end(client));
    if (replaces) this.#onReplaced();
  }

  #end(client: RedisClient): void {
    if (this.#ready !== client) return;
    this.#hasEnded = true;
    this.#drop(client);
  }
}

/** For messages: where, without credentials. */
function describe(address: RedisAddress): string {
  const hosts = describeHosts(address);
  return address.master === undefined ? hosts : `${hosts} (${address.master})`;
}
