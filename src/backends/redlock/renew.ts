import type { Gone, Renewal, RenewRequest } from "../../core/backend.js";
import { askAll, type Reply, Soon } from "./ask-all.js";
import { lockKeys } from "./keys.js";
import { type RedlockNode, SCRIPTS } from "./node.js";
import type { RedlockSettings } from "./options.js";
import { type Extension, readExtensions } from "./replies.js";
import { failuresOf, noQuorum } from "./reports.js";
import { keptBy, majorityOf } from "./tally.js";

type Answers = readonly Extension[];

/** Extends claims on all nodes at once; each is held if a majority of them still has it. */
export function renewAll(
  nodes: readonly RedlockNode[],
  settings: RedlockSettings,
  claims: readonly RenewRequest[],
  timeoutOf: (ttlMs: number) => number,
): Promise<readonly Renewal[]> {
  const keys = claims.flatMap(({ name }) => lockKeys(settings.prefix, name));
  const each = claims.flatMap(({ id, ticket, ttlMs }) => [
    id,
    String(ticket),
    String(Math.round(ttlMs * 1000)),
  ]);
  const args = [String(settings.retentionMs), ...each];
  const timesMs = claims.map(({ ttlMs }) => timeoutOf(ttlMs));
  return askAll<RedlockNode, Answers, readonly Renewal[]>({
    nodes,
    ask: (node) => node.run(SCRIPTS.renew, keys, args, (reply) => readExtensions(reply, claims.length)),
    // One that is nearly over must not cost the others theirs: each has its own time.
    timeoutMs: Math.max(...timesMs),
    decide: (replies, over) => {
      const renewals = claims.map((_, index) => renewalOf(replies, index));
      const decided = renewals.filter((renewal) => renewal !== undefined);
      if (decided.length === claims.length) return decided;
      // And those of which it is known must not wait longer than they would have for the others.
      if (!over) return new Soon(Math.min(...timesMs.filter((_, index) => renewals[index] !== undefined)));
      const error = noQuorum(nodes.length, majorityOf(nodes.length), failuresOf(nodes, replies));
      return renewals.map((renewal): Renewal => renewal ?? { state: "unknown", error });
    },
    silent: (node) => node.silence(),
  });
}

/** Held by a majority; gone if no majority can have it; else not known yet. */
function renewalOf(replies: readonly (Reply<Answers> | undefined)[], index: number): Renewal | undefined {
  const majority = majorityOf(replies.length);
  const times: number[] = [];
  const losses: Gone[] = [];
  for (const reply of replies) {
    const answer = reply !== undefined && "answer" in reply ? reply.answer[index] : undefined;
    if (answer?.state === "held") times.push(answer.remainingMs);
    else if (answer?.state === "gone") losses.push(answer);
  }
  if (times.length >= majority) return { state: "held", remainingMs: keptBy(times, majority) };
  if (losses.length <= replies.length - majority) return undefined;
  return losses.find(({ loss }) => loss === "forced") ?? losses[0];
}
