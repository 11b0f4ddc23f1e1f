import type {
  Answer,
  Backend,
  ClaimRequest,
  Ending,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import type { CellStore } from "../../core/cells.js";
import { backendError } from "../../core/errors.js";
import { bitIn } from "../../core/reply.js";
import { TicketFloor } from "../../core/ticket-floor.js";
import { tlsCaveats } from "../../core/tls.js";
import { Bell } from "./bell.js";
import { RedisCells } from "./cells.js";
import { ClaimArgs, toUs } from "./claim-args.js";
import { type RedisClient, runScript, SCRIPTS, type Script } from "./client.js";
import { bellChannel, cellKey, LockKeyring, lockPattern, nameOfKey } from "./keys.js";
import { RedisLink } from "./link.js";
import { tryFewerKeys } from "./migration.js";
import { type RedisOptions, type RedisSettings, readRedisOptions } from "./options.js";
import { Replication } from "./replication.js";
import { readAnswer, readPage, readRenewals, readReply } from "./replies.js";

export type { IoredisLike } from "./ioredis.js";
export type { NodeRedisLike } from "./node-redis.js";
export type { RedisOptions } from "./options.js";

/** Claims that one script looks at: a long queue must not keep the server busy. */
const PAGE = 1_000;

/** Locks on one Redis server, behind Sentinel, or in a Cluster; by ioredis, node-redis or iovalkey. */
export function redis(options: RedisOptions = {}): Backend {
  return new RedisBackend(readRedisOptions(options));
}

class RedisBackend implements Backend {
  readonly traits: Traits;
  readonly cells: CellStore;
  readonly #settings: RedisSettings;
  readonly #link: RedisLink;
  /** Waiting for replicas blocks a connection: renewals must not stand in line behind it. */
  readonly #claimLink: RedisLink;
  readonly #replication = new Replication();
  readonly #bell: Bell;
  readonly #keys: LockKeyring;
  /** One for all servers of a cluster: where their clocks differ, the one that is ahead counts for all. */
  readonly #floor = new TicketFloor();
  readonly #claimArgs: ClaimArgs;

  constructor(settings: RedisSettings) {
    this.#settings = settings;
    this.traits = traitsOf(settings);
    this.#keys = new LockKeyring(settings.prefix);
    this.cells = new RedisCells((...asked) => this.#runCell(...asked), settings, this.#floor);
    this.#link = new RedisLink(settings, () => this.#bell.renew());
    this.#claimLink = settings.replicas > 0 ? new RedisLink(settings, () => {}) : this.#link;
    this.#bell = new Bell(bellChannel(settings.prefix), settings.timeoutMs, async (channel, onMessage) =>
      (await this.#link.client()).subscribe(channel, onMessage),
    );
    this.#claimArgs = new ClaimArgs(this.#bell.channel, settings.retentionMs);
  }

  get client(): string | undefined {
    return this.#link.library;
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const keys = this.#keys.of(request.name);
    const first = request.ticket === undefined;
    const grantMs = Math.max(request.ttlMs, request.minHoldMs);
    const args = this.#claimArgs.of(request, first ? this.#floor.lowest() : 0);
    const touched = first ? keys.usual : keys.all;
    const read = (reply: unknown) => readAnswer(reply, grantMs);
    const answer = await this.#run(SCRIPTS.claim, touched, args, read, this.#claimLink);
    if (first && "ticket" in answer) this.#floor.observe(answer.ticket);
    if ("ticket" in answer) this.#claimLink.wrote();
    if (answer.state === "granted" && this.#settings.replicas > 0)
      await this.#replicate(request.name, keys.head);
    return answer;
  }

  /** Renewals of many locks share a script, except where a cluster keeps the locks apart. */
  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    if (claims.length === 0) return [];
    const { clustered } = await this.#link.client();
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
    if (renewals.some(({ state }) => state !== "gone")) this.#link.wrote();
    return renewals;
  }

  async release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const keys = this.#keys.of(claim.name);
    const args = [claim.id, String(this.#settings.retentionMs)];
    const forced = typeof ending === "object";
    if (forced) args.push(JSON.stringify({ reason: ending.reason, by: ending.by }));
    else if (ending !== undefined) args.push(ending);
    const touched = forced ? keys.all : keys.usual;
    const wasThere = await this.#run(SCRIPTS.release, touched, args, bitIn);
    if (wasThere) this.#link.wrote();
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
    const { prefix } = this.#settings;
    const seen = new Set<string>();
    const client = await this.#link.client();
    for await (const batch of this.#link.each(
      client.scan(lockPattern(client.keyPrefix, prefix, query.prefix)),
    )) {
      const names = batch
        .map((key) => nameOfKey(prefix, key.slice(client.keyPrefix.length)))
        .filter((name) => name?.startsWith(query.prefix) && !seen.has(name)) as string[];
      for (const name of names) seen.add(name);
      const records = await Promise.all(names.map((name) => this.#record(name)));
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

  watch(claim: { readonly name: string; readonly id: string }, ring: Notify): Unwatch {
    // With replicas to be asked, a ring alone is no proof: the claim has to ask and wait for them.
    return this.#bell.watch(
      claim.id,
      this.#settings.replicas === 0 ? ring : (news) => ring(news?.state === "granted" ? undefined : news),
    );
  }

  async close(): Promise<void> {
    this.#bell.close();
    const links = new Set([this.#link, this.#claimLink]);
    await Promise.all([...links].map((link) => link.close()));
  }

  #run<T>(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    read: (reply: unknown) => T,
    link = this.#link,
  ): Promise<T> {
    const asked = link.use((client) => {
      const answered = runScript(client, script, keys, args);
      if (!client.clustered) return answered;
      return answered.catch((error: unknown) => tryFewerKeys(error, client, script, keys, args));
    });
    return asked.then((reply) => readReply(reply, read));
  }

  async #runCell<T>(
    name: string,
    args: readonly string[],
    read: (reply: unknown) => T,
    change?: string,
  ): Promise<T> {
    const key = cellKey(this.#settings.prefix, name);
    const keys = change === undefined ? [key] : [key, `${key}:${change}`];
    const link = change === undefined ? this.#link : this.#claimLink;
    const answer = await this.#run(SCRIPTS.cell, keys, args, read, link);
    if (change !== undefined && answer !== undefined && this.#settings.replicas > 0)
      await this.#replicate(name, key);
    return answer;
  }

  /** Narrows the window in which a failover loses the claim; a claim that too few have seen is no grant. */
  async #replicate(name: string, key: string): Promise<void> {
    const { replicas, timeoutMs } = this.#settings;
    const seen = await this.#claimLink.use((client: RedisClient) => {
      // So short that a claim behind it, and its own question, still have their time.
      const ask = () => client.waitForReplicas(key, replicas, Math.ceil(timeoutMs / 4));
      return client.clustered ? ask() : this.#replication.seen(ask);
    });
    if (seen >= replicas) return;
    // Who is not granted withdraws; who asks again waits for the replicas again.
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
    ttl: "claim",
    expiryGranularityMs: 20,
    caveats: [
      "Replication is asynchronous: if a primary dies before its replica has the claim, two may believe they hold it. Fencing tokens contain that.",
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
