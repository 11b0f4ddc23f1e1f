import { type RedisClient, runScript, type Script } from "../../clients/redis/client.js";
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
import { backendError } from "../../core/errors.js";
import { TicketFloor } from "../../engine-kit/queue.js";
import { bitIn, forceText } from "../../engine-kit/replies.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { redisCells } from "./cells.js";
import { cellKey, LockKeyCache } from "./keys.js";
import { type RedisOptions, readRedisOptions } from "./options.js";
import { readAnswer, readPage, readRenewals } from "./replies.js";
import { ClaimArgs, replicasThatHave, SCRIPTS, tryFewerKeys } from "./scripts.js";

export type { IoredisLike } from "../../clients/redis/ioredis.js";
export type { NodeRedisLike } from "../../clients/redis/node-redis.js";
export type { RedisOptions } from "./options.js";

/** Claims that one script looks at: a long queue must not keep the server busy. */
const PAGE = 1_000;

/** Locks on one Redis server, behind Sentinel, or in a Cluster; by ioredis, node-redis or iovalkey. */
export function redis(options: RedisOptions = {}): Backend {
  return new RedisBackend(readRedisOptions(options));
}

/** By which connection a script is run, and, afterwards, which client has run it. */
interface Run {
  readonly connection: RedisConnection;
  readonly repeatable: boolean;
  client?: RedisClient;
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
    this.#claimArgs = new ClaimArgs(this.#notifications.channel, settings.retentionMs);
  }

  get client(): string | undefined {
    return this.#connection.library;
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const keys = this.#keys.of(request.name);
    const first = request.ticket === undefined;
    const grantMs = Math.max(request.ttlMs, request.minHoldMs);
    const args = this.#claimArgs.of(request, first ? this.#floor.lowest() : 0);
    const touched = first ? keys.usual : keys.all;
    const tells = request.sticky === true && this.#notifications.stand;
    const read = (reply: unknown) => readAnswer(reply, grantMs, tells);
    const replicated = this.#settings.replicas > 0;
    const run: Run = { connection: this.#claimConnection, repeatable: !replicated };
    const answer = await this.#run(SCRIPTS.claim, touched, args, read, run);
    if (first && "ticket" in answer) this.#floor.observe(answer.ticket);
    if ("ticket" in answer) this.#claimConnection.wrote();
    if (answer.state === "granted" && replicated) await this.#replicate(request.name, keys.head, run);
    return answer;
  }

  /** Renewals of many locks share a script, except where a cluster keeps the locks apart. */
  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    if (claims.length === 0) return [];
    const { clustered } = await this.#connection.client();
    if (!clustered) return this.#renewTogether(claims);
    // A node that is down must not cost the locks of the other nodes their renewal.
    const unknown = (error: unknown): readonly Renewal[] => [{ state: "unknown", error }];
    const answers = await Promise.all(claims.map((claim) => this.#renewTogether([claim]).catch(unknown)));
    return answers.flat();
  }

  async #renewTogether(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const keys = claims.flatMap(({ name }) => this.#keys.of(name).all);
    const args = claims.flatMap(({ id, ticket, ttlMs }) => [id, String(ticket), toUs(ttlMs)]);
    const all = [String(this.#settings.retentionMs), ...args];
    const read = (reply: unknown) => readRenewals(reply, claims.length);
    const renewals = await this.#run(SCRIPTS.renew, keys, all, read);
    if (renewals.some(({ state }) => state !== "gone")) this.#connection.wrote();
    return renewals;
  }

  async release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const keys = this.#keys.of(claim.name);
    const args = [claim.id, String(this.#settings.retentionMs)];
    const forced = typeof ending === "object";
    if (ending !== undefined) args.push(forced ? forceText(ending) : ending);
    const touched = forced ? keys.all : keys.usual;
    // Repeated, it would say that the claim was not there. Core tries a release again, and knows that.
    const run: Run = { connection: this.#connection, repeatable: false };
    const wasThere = await this.#run(SCRIPTS.release, touched, args, bitIn, run);
    if (wasThere) this.#connection.wrote();
    return wasThere;
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
    const keys = this.#keys.of(name).usual;
    const read = (after: number, most: number) =>
      this.#run(SCRIPTS.list, keys, [String(after), String(most)], (reply) => readPage(name, reply));
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
    this.#notifications.close();
    const connections = new Set([this.#connection, this.#claimConnection]);
    await Promise.all([...connections].map((connection) => connection.close()));
  }

  #run<T>(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    read: (reply: unknown) => T,
    run: Run = { connection: this.#connection, repeatable: true },
  ): Promise<T> {
    const asked = run.connection.use((client) => {
      run.client = client;
      const answered = runScript(client, script, keys, args);
      if (!client.clustered) return answered;
      return answered.catch((error: unknown) => tryFewerKeys(error, client, script, keys, args));
    }, run.repeatable);
    return asked.then((reply) => readReply(reply, read));
  }

  async #runCell<T>(
    name: string,
    args: readonly string[],
    read: (reply: unknown) => T,
    change?: string,
  ): Promise<T> {
    const key = cellKey(this.#settings.prefix, name);
    if (change === undefined) return this.#run(SCRIPTS.cell, [key], args, read);
    // The server remembers a change for the time of one request only: a repetition could come later, and do it twice.
    const run: Run = { connection: this.#claimConnection, repeatable: false };
    const answer = await this.#run(SCRIPTS.cell, [key, `${key}:${change}`], args, read, run);
    if (answer !== undefined && this.#settings.replicas > 0) await this.#replicate(name, key, run);
    return answer;
  }

  /**
   * Narrows the window in which a failover loses the claim; a claim that too few have seen is no grant. Only the
   * connection that wrote the claim can ask for that: on any other one, WAIT tells of something else.
   */
  async #replicate(name: string, key: string, written: Run): Promise<void> {
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
