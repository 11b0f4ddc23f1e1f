import { Notifications } from "../../clients/redis/notifications.js";
import { toUs } from "../../clients/redis/replies.js";
import type {
  Answer,
  Backend,
  ClaimRequest,
  Ending,
  Gone,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import { WHOLE } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import { SingleFlight } from "../../core/concurrency.js";
import { formatMs } from "../../core/duration.js";
import { delay } from "../../core/timer.js";
import { MetadataText } from "../../engine-kit/replies.js";
import { tlsCaveats } from "../../engine-kit/tls.js";
import { type Candidate, ClaimAttempt, type Result } from "./claim.js";
import { disagreement, noQuorum, refuseTheImpossible } from "./errors.js";
import { listByPrefix, Releases, recordOf, renewAll } from "./existing-claims.js";
import { bornKey, channelId, lockKeys, quorumChannel } from "./keys.js";
import { BEHIND_MS, backoffMs, LocalQueue } from "./local-queue.js";
import { majorityOf } from "./majority.js";
import { greetAll, nodesOf, type RedlockNode } from "./node.js";
import {
  type RedlockOptions,
  type RedlockSettings,
  readRedlockOptions,
  TTL_SHARE,
  timeoutFor,
} from "./options.js";

export type { IoredisLike } from "../../clients/redis/ioredis.js";
export type { NodeRedisLike } from "../../clients/redis/node-redis.js";
export type { RedlockOptions } from "./options.js";

/** How often a claim is tried again when votes were split, so that no claim has the lock. */
const MOST_ROUNDS = 12;
/** So that all nodes draw the same ticket, it lies a little ahead of their clocks. */
const LEAD_US = 1_000;
/** The head of an uncontended lock is kept for so much longer than asked: tickets may be ahead of the clock. */
const KEPT_LONGER_MS = 1_000;

const GONE: Gone = { state: "gone", loss: "taken" };

/**
 * Locks by a majority of independent Redis servers, for `createLocks`; by ioredis or node-redis. There is no queue: only
 * mutexes, multi-locks of them and elections, and no order among processes.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { redlock } from "locktender/redlock";
 *
 * const locks = createLocks(redlock({ url: "redlock://127.0.0.1:6379,127.0.0.1:6380,127.0.0.1:6381" }));
 * ```
 */
export function redlock(options: RedlockOptions = {}): Backend {
  return new QuorumBackend(readRedlockOptions(options));
}

class QuorumBackend implements Backend {
  readonly traits;
  readonly #settings: RedlockSettings;
  readonly #nodes: readonly RedlockNode[];
  readonly #majority: number;
  readonly #greeting = new SingleFlight<void>();
  #areGreeted = false;
  readonly #releases: Releases;
  readonly #queue: LocalQueue;
  readonly #notifications: Notifications;
  /** Attempts are numbered, so that what belongs to an earlier one never touches a later one. */
  #attempts = 0;
  /** The ids of claims that their callers still want, and their tickets once they are granted. */
  readonly #wanted = new Map<string, bigint | undefined>();
  readonly #metadata = new MetadataText();

  constructor(settings: RedlockSettings) {
    const { nodes, prefix, timeoutMs } = settings;
    this.#settings = settings;
    this.traits = traitsOf(settings);
    this.#nodes = nodesOf(settings);
    this.#majority = majorityOf(nodes.length);
    this.#releases = new Releases(this.#nodes, settings);
    let next = Math.floor(Math.random() * nodes.length);
    // A holder that releases tells all nodes, so it is enough to listen at one of them.
    this.#notifications = new Notifications(quorumChannel(prefix), timeoutMs, (channel, onMessage) => {
      const node = this.#nodes[next++ % this.#nodes.length] as RedlockNode;
      return node.connection.subscribe(channel, onMessage);
    });
    this.#queue = new LocalQueue((name, notify) => this.#notifications.watch(channelId(name), notify));
  }

  get client(): string | undefined {
    return this.#nodes[0]?.connection.library;
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const { name, id, queue, ttlMs } = request;
    refuseTheImpossible(request, this.#settings);
    if (!this.#areGreeted) await this.#greet();
    if (this.#isAnother(request)) return GONE;
    this.#wanted.set(id, request.ticket ?? this.#wanted.get(id));
    if (request.ticket !== undefined) return this.#answer(request, await this.#attempt(request));
    if (queue && !this.#queue.enter(name, id)) return { state: "refused", againInMs: BEHIND_MS };
    // A lease counts from the first question: what is granted when most of its ttl is over is worth nothing.
    const lastMs = nowMs() + ttlMs / TTL_SHARE;
    for (let round = 0; ; round++) {
      const result = await this.#attempt(request);
      if (queue && result.state !== "no-quorum") this.#queue.answered(name);
      // A waiter is told that votes were split, and asks again after a delay of its own.
      const split = result.state === "refused" && !result.held && !queue;
      const deserted = result.state === "no-quorum" && result.elected;
      const pauseMs = backoffMs(round);
      const last = round === MOST_ROUNDS || nowMs() + pauseMs > lastMs || !this.#wanted.has(id);
      if (!(split || deserted) || last) return this.#answer(request, result);
      await delay(pauseMs);
    }
  }

  async #greet(): Promise<void> {
    await this.#greeting.run(() => greetAll(this.#nodes, this.#settings));
    this.#areGreeted = true;
  }

  #attempt(request: ClaimRequest): Promise<Result> {
    const { name, id } = request;
    const { prefix, retentionMs } = this.#settings;
    const attempt = ++this.#attempts;
    const candidate: Candidate = {
      request,
      keys: [...lockKeys(prefix, name), bornKey(prefix)],
      args: [id, this.#describe(request), this.#ask(request, attempt)],
      attempt,
      timeoutMs: timeoutFor(request.ttlMs, this.#settings),
      retentionMs,
      wanted: () => this.#wanted.has(id),
      freed: () => this.#queue.freed(name, id),
      leave: (node) => this.#releases.leave(node, name, id),
      withdraw: (node) => this.#releases.withdraw(node, name, id, attempt),
    };
    return new ClaimAttempt(this.#nodes, candidate).run();
  }

  #answer(request: ClaimRequest, result: Result): Answer {
    const { name, id, queue } = request;
    switch (result.state) {
      case "granted":
        // After a shared grant the next waiter asks at once: it may share the lock, too.
        this.#queue.granted(name, id, request.weight === WHOLE ? result.remainingMs : 0);
        this.#wanted.set(id, BigInt(result.ticket));
        return { state: "granted", ticket: BigInt(result.ticket), remainingMs: result.remainingMs };
      case "refused":
        return queue
          ? { state: "refused", againInMs: this.#queue.againInMs(name, result) }
          : { state: "refused" };
      case "gone":
        return result;
      case "max-ttl":
        throw disagreement(result.agreedMs, this.#settings.maxTtlMs);
      case "no-quorum": {
        const failure = noQuorum(this.#nodes, result.reports, name);
        if (queue) this.#queue.answered(name, failure);
        throw failure;
      }
    }
  }

  #ask({ ticket, ttlMs, minHoldMs, queue }: ClaimRequest, attempt: number): string {
    const { maxTtlMs, retentionMs } = this.#settings;
    const grantMs = Math.max(ttlMs, minHoldMs);
    const keptMs = Math.ceil(Math.max(grantMs, retentionMs)) + KEPT_LONGER_MS;
    const drawn = `${attempt} ${ticket ?? 0} ${toUs(ttlMs)} ${toUs(grantMs)} ${this.#floor()}`;
    return `${drawn} ${maxTtlMs} ${retentionMs} ${keptMs} ${queue ? 1 : 0}`;
  }

  /** What a claim is, apart from its id. */
  #describe(request: ClaimRequest): string {
    const { weight, fixed, minHoldMs } = request;
    return `${weight} ${fixed ? 1 : 0} ${toUs(minHoldMs)} ${this.#metadata.of(request)}`;
  }

  /** A ticket that a majority of nodes has probably not reached: if they all draw it, no second phase is needed. */
  #floor(): number {
    const ahead = this.#nodes.flatMap(({ aheadUs }) => aheadUs ?? []).sort((a, b) => a - b);
    const usual = ahead[this.#majority - 1];
    return usual === undefined ? 0 : Math.ceil(usual + nowMs() * 1000 + LEAD_US);
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    if (claims.length === 0) return [];
    const known = claims.filter((claim) => !this.#isAnother(claim));
    if (known.length === 0) return claims.map(() => GONE);
    const renewals = await renewAll(this.#nodes, this.#settings, known);
    if (known.length === claims.length) return renewals;
    return claims.map((claim) => renewals[known.indexOf(claim)] ?? GONE);
  }

  /** Nodes know claims by their ids, and may have drawn other tickets: only this process knows which one counts. */
  #isAnother({ id, ticket }: { readonly id: string; readonly ticket?: bigint | undefined }): boolean {
    const known = this.#wanted.get(id);
    return known !== undefined && ticket !== undefined && ticket !== known;
  }

  async release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const { name, id } = claim;
    this.#wanted.delete(id);
    const { found, shared } = await this.#releases.release(name, id, ending);
    this.#queue.wake(name, shared);
    return found;
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    if (!this.#areGreeted) await this.#greet();
    if ("prefix" in query) {
      yield* listByPrefix(this.#nodes, this.#settings, query.prefix);
      return;
    }
    const record = await recordOf(this.#nodes, this.#settings, query.name, query.limit);
    if (record !== undefined) yield record;
  }

  watch(claim: { readonly name: string; readonly id: string }, notify: Notify): Unwatch {
    const { name, id } = claim;
    const ends = [this.#notifications.watch(id, notify), this.#queue.watch(name, id, notify)];
    return () => {
      this.#wanted.delete(id);
      for (const end of ends) end();
    };
  }

  async close(): Promise<void> {
    this.#queue.close();
    this.#notifications.close();
    await this.#releases.settled();
    await Promise.all(this.#nodes.map((node) => node.close()));
  }
}

function traitsOf({ nodes, maxTtlMs }: RedlockSettings): Traits {
  const count = nodes.length;
  const spare = count - majorityOf(count);
  return {
    engine: "redlock",
    reach: "network",
    fencing: true,
    queueing: false,
    notifications: true,
    ttl: "claim",
    expiryGranularityMs: 20,
    caveats: [
      `${spare} of ${count} servers may fail. If more of them lose their memory at the same time, two processes may believe that they hold a lock.`,
      `A server that was started anew or flushed does not vote for ${formatMs(maxTtlMs)}.`,
      "There is no queue between processes: the one that asks at the right moment is next, in no order.",
      "If servers lose their memory, tokens keep growing if their clocks differ by less than that time.",
      ...(count % 2 === 0
        ? [`An even number of servers adds nothing: ${count - 1} would bear the same failures.`]
        : []),
      ...(nodes[0]?.settings.acceptEviction
        ? [
            "Eviction is accepted: a server whose memory is full may forget locks, as if it had lost its memory.",
          ]
        : []),
      ...tlsCaveats(nodes[0]?.settings.address?.tls),
    ],
  };
}
