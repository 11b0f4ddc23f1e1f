import { type RedisClient, runScript } from "../../clients/redis/client.js";
import { RedisConnection } from "../../clients/redis/connection.js";
import { Notifications, notificationChannel } from "../../clients/redis/notifications.js";
import type { RedisSettings } from "../../clients/redis/options.js";
import { readReply, skipUnreadable, toUs } from "../../clients/redis/replies.js";
import type {
  Answer,
  Backend,
  CellStore,
  ClaimRequest,
  Ending,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import { asError, backendError } from "../../core/errors.js";
import { TicketFloor } from "../../engine-kit/queue.js";
import { bitIn, forceText } from "../../engine-kit/replies.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { Batcher, type Element, type Request } from "./batcher.js";
import { redisCells } from "./cells.js";
import { cellKey, LockKeyCache } from "./keys.js";
import { type RedisOptions, readRedisOptions } from "./options.js";
import { readAnswer, readPage, readRenewals } from "./replies.js";
import { ClaimArgs, keepsSlotsApart, replicasThatHave, SCRIPTS, tryFewerKeys } from "./scripts.js";

export type { IoredisLike } from "../../clients/redis/ioredis.js";
export type { NodeRedisLike } from "../../clients/redis/node-redis.js";
export type { RedisOptions } from "./options.js";

/** Claims that one script looks at: a long queue must not keep the server busy. */
const PAGE = 1_000;

/**
 * Locks on one Redis server, behind Sentinel, or in a Cluster, for `createLocks`; by ioredis, node-redis or iovalkey. If the
 * server fails over, a grant can be lost: only tokens contain that.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { redis } from "locktender/redis";
 *
 * const locks = createLocks(redis({ url: "redis://127.0.0.1:6379" }));
 * ```
 */
export function redis(options: RedisOptions = {}): Backend {
  return new RedisBackend(readRedisOptions(options));
}

class RedisBackend implements Backend {
  readonly traits: Traits;
  readonly cells: CellStore;
  readonly #settings: RedisSettings;
  readonly #connection: RedisConnection;
  /** Waiting for replicas blocks a connection: renewals must not queue behind it. */
  readonly #claimConnection: RedisConnection;
  readonly #notifications: Notifications;
  readonly #keys: LockKeyCache;
  /** One for all servers of a cluster: where their clocks differ, the one that is ahead counts for all. */
  readonly #floor = new TicketFloor();
  readonly #claimArgs: ClaimArgs;
  readonly #retentionMs: string;
  readonly #releases: Batcher;
  readonly #claims: Batcher;

  constructor(settings: RedisSettings) {
    this.#settings = settings;
    this.traits = traitsOf(settings);
    this.#keys = new LockKeyCache(settings.prefix);
    this.cells = redisCells((...asked) => this.#runCell(...asked), settings, this.#floor);
    this.#connection = new RedisConnection(settings, () => this.#notifications.renew());
    this.#claimConnection =
      settings.replicas > 0 ? new RedisConnection(settings, () => {}) : this.#connection;
    this.#notifications = new Notifications(
      notificationChannel(settings.prefix),
      settings.timeoutMs,
      (channel, onMessage) => this.#connection.subscribe(channel, onMessage),
    );
    this.#retentionMs = String(settings.retentionMs);
    this.#claimArgs = new ClaimArgs(this.#notifications.channel, settings.retentionMs);
    this.#releases = this.#batcherOn(this.#connection);
    this.#claims = settings.replicas > 0 ? this.#batcherOn(this.#claimConnection) : this.#releases;
  }

  get client(): string | undefined {
    return this.#connection.library;
  }

  claim(request: ClaimRequest): Promise<Answer> {
    const { name, ttlMs, minHoldMs } = request;
    const keys = this.#keys.of(name);
    const first = request.ticket === undefined;
    const args = this.#claimArgs.of(request, first ? this.#floor.lowest() : 0);
    const touched = first ? keys.usual : keys.all;
    const tells = request.sticky === true && this.#notifications.stand;
    const repeatable = this.#settings.replicas === 0;
    const element: Element<Answer> = {
      letter: "c",
      name,
      script: SCRIPTS.claim,
      keys: touched,
      args,
      repeatable,
      read: (reply) => {
        const answer = readAnswer(reply, Math.max(ttlMs, minHoldMs), tells);
        if ("ticket" in answer) {
          if (first) this.#floor.observe(answer.ticket);
          this.#claimConnection.wrote();
        }
        if (repeatable || answer.state !== "granted") return answer;
        return this.#replicate(name, keys.head, element).then(() => answer);
      },
    };
    return this.#claims.ask(element);
  }

  /** Renewals of many locks share a script, except where a cluster keeps the locks apart. */
  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    if (claims.length === 0) return [];
    await this.#connection.client();
    if (!this.#connection.keepsNamesApart) {
      try {
        return await this.#renewTogether(claims);
      } catch (error) {
        if (claims.length === 1 || !keepsSlotsApart(asError(asError(error).cause).message)) throw error;
        this.#connection.keepNamesApart();
      }
    }
    // A node that is down must not cost the locks of the other nodes their renewal.
    const unknown = (error: unknown): readonly Renewal[] => [{ state: "unknown", error }];
    const answers = await Promise.all(claims.map((claim) => this.#renewTogether([claim]).catch(unknown)));
    return answers.flat();
  }

  async #renewTogether(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const keys = claims.flatMap(({ name }) => this.#keys.of(name).all);
    const args = claims.flatMap(({ id, ticket, ttlMs }) => [id, String(ticket), toUs(ttlMs)]);
    const all = [this.#retentionMs, ...args];
    const read = (reply: unknown) => readRenewals(reply, claims.length);
    const renewals = await this.#run({ script: SCRIPTS.renew, keys, args: all, repeatable: true }, read);
    if (renewals.some(({ state }) => state !== "gone")) this.#connection.wrote();
    return renewals;
  }

  release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const keys = this.#keys.of(claim.name);
    const args = [claim.id, this.#retentionMs];
    const forced = typeof ending === "object";
    if (ending !== undefined) args.push(forced ? forceText(ending) : ending);
    const element: Element<boolean> = {
      letter: "r",
      name: claim.name,
      script: SCRIPTS.release,
      keys: forced ? keys.all : keys.usual,
      args,
      // Repeated, it would say that the claim was not there. Core tries a release again, and knows that.
      repeatable: false,
      read: (reply) => {
        const wasThere = bitIn(reply);
        if (wasThere) this.#connection.wrote();
        return wasThere;
      },
    };
    return forced ? this.#run(element, element.read) : this.#releases.ask(element);
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    if ("name" in query) {
      const record = await this.#record(query.name, query.limit);
      if (record !== undefined) yield record;
      return;
    }
    const seen = new Set<string>();
    for await (const batch of this.#connection.scan(this.#settings.prefix, query.prefix)) {
      const names = batch.filter((name) => !seen.has(name));
      for (const name of names) seen.add(name);
      const records = await Promise.all(names.map((name) => this.#record(name).catch(skipUnreadable)));
      for (const record of records) if (record !== undefined) yield record;
    }
  }

  async #record(name: string, limit = Infinity): Promise<ResourceRecord | undefined> {
    const ask = { script: SCRIPTS.list, keys: this.#keys.of(name).usual, repeatable: true };
    const read = (after: number, most: number) =>
      this.#run({ ...ask, args: [String(after), String(most)] }, (reply) => readPage(name, reply));
    let page = await read(0, Math.min(PAGE, limit));
    const { capacity } = page;
    const claims = [...page.claims];
    while (page.next > 0 && claims.length < limit) {
      page = await read(page.next, Math.min(PAGE, limit - claims.length));
      claims.push(...page.claims);
    }
    return claims.length === 0 ? undefined : { name, capacity, claims };
  }

  watch(claim: { readonly name: string; readonly id: string }, notify: Notify): Unwatch {
    // With `replicas`, a notification alone is no grant: the waiter has to ask, and to wait for the replicas.
    return this.#notifications.watch(
      claim.id,
      this.#settings.replicas === 0
        ? notify
        : (notification) => notify(notification?.state === "granted" ? undefined : notification),
    );
  }

  async close(): Promise<void> {
    this.#flush();
    this.#notifications.close();
    const connections = new Set([this.#connection, this.#claimConnection]);
    await Promise.all([...connections].map((connection) => connection.close()));
  }

  /** What does not wait for the end of the turn goes behind what does, because it was issued later. */
  #run<T>(
    request: Request,
    read: (reply: unknown) => T | Promise<T>,
    connection = this.#connection,
  ): Promise<T> {
    this.#flush();
    return this.#send(request, connection).then((reply) => readReply(reply, read));
  }

  #flush(): void {
    this.#releases.flush();
    this.#claims.flush();
  }

  #batcherOn(connection: RedisConnection): Batcher {
    return new Batcher(connection, (element, sinceMs) => this.#send(element, connection, sinceMs));
  }

  #send(request: Request, connection: RedisConnection, sinceMs?: number): Promise<unknown> {
    const { script, keys, args, repeatable } = request;
    const work = (client: RedisClient) => {
      request.client = client;
      const answered = runScript(client, script, keys, args);
      if (!client.clustered) return answered;
      return answered.catch((error: unknown) => tryFewerKeys(error, client, script, keys, args));
    };
    return connection.use(work, repeatable, sinceMs);
  }

  async #runCell<T>(
    name: string,
    args: readonly string[],
    read: (reply: unknown) => T,
    change?: string,
  ): Promise<T> {
    const key = cellKey(this.#settings.prefix, name);
    const { cell: script } = SCRIPTS;
    if (change === undefined) return this.#run({ script, keys: [key], args, repeatable: true }, read);
    // The server remembers a change for the time of one request only: a repetition could come later, and do it twice.
    const request: Request = { script, keys: [key, `${key}:${change}`], args, repeatable: false };
    const answer = await this.#run(request, read, this.#claimConnection);
    if (answer !== undefined && this.#settings.replicas > 0) await this.#replicate(name, key, request);
    return answer;
  }

  /**
   * Narrows the window in which a failover loses the claim; a claim that too few have seen is no grant. Only the
   * connection that wrote the claim can ask for that: on any other one, WAIT tells of something else.
   */
  async #replicate(name: string, key: string, written: Request): Promise<void> {
    const { replicas, timeoutMs } = this.#settings;
    const askWriter = (client: RedisClient) => {
      if (client !== written.client) throw new Error("the connection that wrote this is gone");
      // So short that a claim behind it, and its own question, still have their time.
      const ask = () => client.waitForReplicas(key, replicas, Math.ceil(timeoutMs / 4));
      return client.clustered ? ask() : replicasThatHave(client, ask);
    };
    const seen = await this.#claimConnection.use(askWriter, false);
    if (seen >= replicas) return;
    // A claim that is not granted withdraws; one that asks again waits for the replicas again.
    throw backendError(`only ${seen} of ${replicas} replicas acknowledged "${name}".`, {
      name,
      retryable: true,
    });
  }
}

function traitsOf(settings: RedisSettings): Traits {
  return {
    engine: "redis",
    reach: "network",
    fencing: true,
    queueing: true,
    notifications: true,
    tellsHolder: true,
    ttl: "claim",
    expiryGranularityMs: 20,
    caveats: [
      "Replication is asynchronous: if a primary dies before its replica has the claim, two processes may believe that they hold it. Fencing tokens contain that.",
      "After a failover or a flush, tokens keep growing, also if the clock of the new primary is up to an hour behind. One exception: a process that had claimed nothing before, at a name that no other process has claimed since. There the clock may only be behind by less than the failover took.",
      ...(settings.replicas > 0
        ? [
            `A grant waits for ${settings.replicas} replica(s), which narrows that window and does not close it.`,
          ]
        : []),
      ...(settings.acceptEviction
        ? [
            "Eviction is accepted: a server whose memory is full may forget locks, and let a second holder in. The first one is told at its next renewal, and fencing tokens contain what it does until then.",
          ]
        : []),
      ...tlsCaveats(settings.address?.tls),
    ],
  };
}
