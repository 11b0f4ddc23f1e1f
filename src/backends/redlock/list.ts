import { lockPattern, nameOfKey } from "../../clients/redis/key-names.js";
import type { ClaimRecord, ResourceRecord } from "../../core/backend.js";
import { WHOLE } from "../../core/claim.js";
import { askAll, SOON } from "./ask-all.js";
import { lockKeys } from "./keys.js";
import { type RedlockNode, SCRIPTS } from "./node.js";
import type { RedlockSettings } from "./options.js";
import { readClaims } from "./replies.js";
import { failuresOf, noQuorum } from "./reports.js";
import { majorityOf } from "./tally.js";

/** Names that are looked at together. */
const BATCH = 100;

/** The claims that have, or may have, a majority of the nodes; nothing if there is none. */
export async function recordOf(
  nodes: readonly RedlockNode[],
  settings: RedlockSettings,
  name: string,
  limit = Infinity,
): Promise<ResourceRecord | undefined> {
  const majority = majorityOf(nodes.length);
  const claims = await askAll<RedlockNode, readonly ClaimRecord[], readonly ClaimRecord[]>({
    nodes,
    ask: (node) =>
      node.run(SCRIPTS.list, lockKeys(settings.prefix, name), [], (reply) => readClaims(name, reply)),
    timeoutMs: settings.timeoutMs,
    decide: (replies, over) => {
      const seen = replies.flatMap((reply) => (reply && "answer" in reply ? [reply.answer] : []));
      if (seen.length >= majority) return over ? together(seen, nodes.length) : SOON;
      if (!over) return undefined;
      throw noQuorum(nodes.length, majority, failuresOf(nodes, replies), name);
    },
    silent: (node) => node.silence(),
  });
  return claims.length === 0 ? undefined : { name, capacity: WHOLE, claims: claims.slice(0, limit) };
}

/** Every name that a majority of the nodes can be asked about. */
export async function* listByPrefix(
  nodes: readonly RedlockNode[],
  settings: RedlockSettings,
  namePrefix: string,
): AsyncIterable<ResourceRecord> {
  const keysOf = `${settings.prefix}:quorum`;
  const scans = nodes.map(async (node) => {
    const found: string[] = [];
    for await (const keys of node.scan((keyPrefix) => lockPattern(keyPrefix, keysOf, namePrefix))) {
      found.push(...keys);
    }
    return found;
  });
  const outcomes = await Promise.allSettled(scans);
  const reports = outcomes.flatMap((outcome, index) => {
    const node = nodes[index];
    return outcome.status === "rejected" && node !== undefined ? [{ node, error: outcome.reason }] : [];
  });
  const majority = majorityOf(nodes.length);
  if (nodes.length - reports.length < majority) throw noQuorum(nodes.length, majority, reports);
  const keys = new Set(outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? outcome.value : [])));
  const names = [...keys]
    .map((key) => nameOfKey(keysOf, key))
    .filter((name) => name?.startsWith(namePrefix)) as string[];
  for (let from = 0; from < names.length; from += BATCH) {
    const some = names.slice(from, from + BATCH);
    const records = await Promise.all(some.map((name) => recordOf(nodes, settings, name)));
    for (const record of records) if (record !== undefined) yield record;
  }
}

/** What nodes show of the same claim, as one; claims that cannot have a majority are left out. */
function together(seen: readonly (readonly ClaimRecord[])[], nodes: number): readonly ClaimRecord[] {
  const majority = majorityOf(nodes);
  const byId = new Map<string, ClaimRecord[]>();
  for (const claim of seen.flat()) {
    const known = byId.get(claim.id);
    if (known === undefined) byId.set(claim.id, [claim]);
    else known.push(claim);
  }
  return [...byId.values()]
    .filter((copies) => copies.length + nodes - seen.length >= majority)
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
