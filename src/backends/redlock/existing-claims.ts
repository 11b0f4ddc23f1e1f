import { within } from "../../clients/redis/errors.js";
import { skipUnreadable, toUs } from "../../clients/redis/replies.js";
import type { ClaimRecord, Ending, Gone, Renewal, RenewRequest, ResourceRecord } from "../../core/backend.js";
import { WHOLE } from "../../core/claim.js";
import { forceText } from "../../engine-kit/replies.js";
import { failuresOf, noQuorum } from "./errors.js";
import { channelId, lockKeys, quorumChannel, quorumPrefix } from "./keys.js";
import {
  answerIn,
  answersIn,
  askAll,
  majorityKeepsMs,
  majorityOf,
  type Replies,
  type Reply,
  SOON,
  Soon,
} from "./majority.js";
import { type RedlockNode, SCRIPTS } from "./node.js";
import { type RedlockSettings, timeoutFor } from "./options.js";
import { type Extension, readClaims, readExtensions, readReleased } from "./replies.js";

// What all nodes are asked about claims that are there: to extend them, to end them, and to list them.

/** Extends claims on all nodes at once; each is held if a majority of them still has it. */
export function renewAll(
  nodes: readonly RedlockNode[],
  settings: RedlockSettings,
  claims: readonly RenewRequest[],
): Promise<readonly Renewal[]> {
  const keys = claims.flatMap(({ name }) => lockKeys(settings.prefix, name));
  const each = claims.flatMap(({ id, ticket, ttlMs }) => [id, String(ticket), toUs(ttlMs)]);
  const args = [String(settings.retentionMs), ...each];
  const timesMs = claims.map(({ ttlMs }) => timeoutFor(ttlMs, settings));
  return askAll<readonly Extension[], readonly Renewal[]>({
    nodes,
    ask: (node) => node.run(SCRIPTS.renew, keys, args, (reply) => readExtensions(reply, claims.length)),
    // A claim that is nearly over must not cost the others their renewal: each has its own time.
    timeoutMs: Math.max(...timesMs),
    decide: (replies, over) => {
      const renewals = claims.map((_, index) => renewalOf(replies, index));
      const decided = renewals.filter((renewal) => renewal !== undefined);
      if (decided.length === claims.length) return decided;
      // And claims that are decided must not wait for the others longer than their own time.
      if (!over) return new Soon(Math.min(...timesMs.filter((_, index) => renewals[index] !== undefined)));
      const error = noQuorum(nodes, failuresOf(nodes, replies));
      return renewals.map((renewal): Renewal => renewal ?? { state: "unknown", error });
    },
  });
}

/** Held by a majority; gone if no majority can have it; else not known yet. */
function renewalOf(replies: Replies<readonly Extension[]>, index: number): Renewal | undefined {
  const majority = majorityOf(replies.length);
  const times: number[] = [];
  const losses: Gone[] = [];
  for (const reply of replies) {
    const answer = answerIn(reply)?.[index];
    if (answer?.state === "held") times.push(answer.remainingMs);
    else if (answer?.state === "gone") losses.push(answer);
  }
  if (times.length >= majority) return { state: "held", remainingMs: majorityKeepsMs(times, majority) };
  return losses.length > replies.length - majority ? clearestOf(losses) : undefined;
}

/** Nodes may tell a loss in two ways: one that has heard of the operator knows more. */
export function clearestOf(losses: readonly Gone[]): Gone | undefined {
  return losses.find(({ loss }) => loss === "forced") ?? losses[0];
}

/** A caller that closes waits no longer than this. */
const CLOSING_MS = 250;

const ANY_ATTEMPT = Number.MAX_SAFE_INTEGER;

interface Released {
  /** A majority of nodes still had it. */
  readonly found: boolean;
  /** Another process has asked for it meanwhile, and is notified. */
  readonly shared: boolean;
}

/** Gives votes back: always to all nodes, and without waiting for those that do not answer. */
export class Releases {
  readonly #nodes: readonly RedlockNode[];
  readonly #settings: RedlockSettings;
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(nodes: readonly RedlockNode[], settings: RedlockSettings) {
    this.#nodes = nodes;
    this.#settings = settings;
  }

  /** The claim ends, whichever attempt it was: its id is not used again. */
  release(name: string, id: string, ending: Ending | undefined): Promise<Released> {
    const nodes = this.#nodes;
    const majority = majorityOf(nodes.length);
    return askAll<number, Released>({
      nodes,
      ask: (node) => this.#tell(node, name, id, ANY_ATTEMPT, ending),
      timeoutMs: this.#settings.timeoutMs,
      decide: (replies, over) => {
        const answers = answersIn(replies);
        const found = answers.filter((answer) => answer > 0).length;
        const unknown = nodes.length - answers.length;
        const shared = answers.includes(2);
        if (ending === undefined) {
          if (found >= majority) return { found: true, shared };
          if (found + unknown < majority) return { found: false, shared };
        } else if (answers.length >= majority) {
          // No work was done under an unused claim; and the holder of a forced one has been told.
          return over ? { found: found > 0 && found + unknown >= majority, shared } : SOON;
        }
        if (!over) return undefined;
        throw noQuorum(nodes, failuresOf(nodes, replies), name);
      },
    });
  }

  /** What one node granted to an attempt that came to nothing. No caller waits for that; its ttl ends it anyway. */
  withdraw(node: RedlockNode, name: string, id: string, attempt: number): void {
    this.#tell(node, name, id, attempt, "unused").catch(() => undefined);
  }

  /** One node may have heard of the end of the claim before it heard of the claim. */
  leave(node: RedlockNode, name: string, id: string): void {
    this.#tell(node, name, id, ANY_ATTEMPT, undefined).catch(() => undefined);
  }

  /** When all votes are given back that can be; on nodes that do not answer by then, the ttl ends them. */
  async settled(): Promise<void> {
    await within(Promise.allSettled(this.#underWay), CLOSING_MS).catch(() => undefined);
  }

  #tell(
    node: RedlockNode,
    name: string,
    id: string,
    attempt: number,
    ending: Ending | undefined,
  ): Promise<number> {
    const { prefix, retentionMs } = this.#settings;
    const args = [id, String(attempt), String(retentionMs), `${quorumChannel(prefix)} ${channelId(name)}`];
    if (ending !== undefined) args.push(typeof ending === "object" ? forceText(ending) : ending);
    const told = node.run(SCRIPTS.release, lockKeys(prefix, name), args, readReleased);
    const forget = () => void this.#underWay.delete(told);
    this.#underWay.add(told);
    told.then(forget, forget);
    return told;
  }
}

/** Names that are looked at together. */
const BATCH = 100;

/** The claims that have, or may have, a majority of the nodes; nothing if there is none. */
export async function recordOf(
  nodes: readonly RedlockNode[],
  { prefix, timeoutMs }: RedlockSettings,
  name: string,
  limit = Infinity,
): Promise<ResourceRecord | undefined> {
  const claims = await askAll<readonly ClaimRecord[], readonly ClaimRecord[]>({
    nodes,
    ask: (node) => node.run(SCRIPTS.list, lockKeys(prefix, name), [], (reply) => readClaims(name, reply)),
    timeoutMs,
    decide: (replies, over) => {
      const seen = answersIn(replies);
      if (seen.length >= majorityOf(nodes.length)) return over ? together(seen, nodes.length) : SOON;
      if (!over) return undefined;
      throw noQuorum(nodes, failuresOf(nodes, replies), name);
    },
  });
  return claims.length === 0 ? undefined : { name, capacity: WHOLE, claims: claims.slice(0, limit) };
}

/** Every name that a majority of the nodes can be asked about. */
export async function* listByPrefix(
  nodes: readonly RedlockNode[],
  settings: RedlockSettings,
  namePrefix: string,
): AsyncIterable<ResourceRecord> {
  const scans = nodes.map(async (node): Promise<Reply<readonly string[]>> => {
    const answer: string[] = [];
    try {
      for await (const names of node.connection.scan(quorumPrefix(settings.prefix), namePrefix))
        answer.push(...names);
      return { answer };
    } catch (error) {
      return { error };
    }
  });
  const replies = await Promise.all(scans);
  const failures = failuresOf(nodes, replies);
  if (nodes.length - failures.length < majorityOf(nodes.length)) throw noQuorum(nodes, failures);
  const names = [...new Set(answersIn(replies).flat())];
  for (let from = 0; from < names.length; from += BATCH) {
    const some = names.slice(from, from + BATCH);
    const records = await Promise.all(
      some.map((name) => recordOf(nodes, settings, name).catch(skipUnreadable)),
    );
    for (const record of records) if (record !== undefined) yield record;
  }
}

/** What nodes show of the same claim, as one; claims that cannot have a majority are left out. */
function together(seen: readonly (readonly ClaimRecord[])[], nodes: number): readonly ClaimRecord[] {
  const byId = new Map<string, ClaimRecord[]>();
  for (const claim of seen.flat()) {
    const known = byId.get(claim.id);
    if (known === undefined) byId.set(claim.id, [claim]);
    else known.push(claim);
  }
  return [...byId.values()]
    .filter((copies) => copies.length + nodes - seen.length >= majorityOf(nodes))
    .map(merged)
    .sort((a, b) => (a.ticket < b.ticket ? -1 : 1));
}

/** The copies agree but for a node that has not heard of the ticket or of the last renewal. */
function merged(copies: readonly ClaimRecord[]): ClaimRecord {
  const tickets = copies.map(({ ticket }) => ticket);
  const count = (ticket: bigint) => tickets.filter((other) => other === ticket).length;
  const usual = copies.reduce((best, copy) => (count(copy.ticket) > count(best.ticket) ? copy : best));
  return {
    ...usual,
    ageMs: Math.max(...copies.map(({ ageMs }) => ageMs)),
    remainingMs: Math.max(...copies.map(({ remainingMs }) => remainingMs)),
  };
}
