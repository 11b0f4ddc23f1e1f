import type { ClaimRequest } from "../../core/backend.js";
import { WHOLE } from "../../core/claim.js";
import { formatMs } from "../../core/duration.js";
import { asError, backendError, isLockError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";
import { majorityOf, type Replies } from "./majority.js";
import type { RedlockNode } from "./node.js";
import type { RedlockSettings } from "./options.js";

/** Why a node cannot be relied on now, for people. */
export interface Report {
  readonly node: RedlockNode;
  readonly error?: unknown;
  readonly votesInMs?: number;
}

/** The nodes that have not answered, with their reasons. */
export function failuresOf(nodes: readonly RedlockNode[], replies: Replies<unknown>): readonly Report[] {
  return nodes.flatMap((node, index) => {
    const reply = replies[index];
    if (reply === undefined) return [{ node, error: node.silence() }];
    return "error" in reply ? [{ node, error: reply.error }] : [];
  });
}

/** Too few nodes voted. Says which did not and why, and for how long that will be so where it is known. */
export function noQuorum(
  nodes: readonly RedlockNode[],
  reports: readonly Report[],
  lock?: string,
): LockError {
  const count = nodes.length;
  const majority = majorityOf(count);
  const able = count - reports.length;
  const why = reports.map(describe).join("; ");
  const young = reports.some(({ votesInMs }) => votesInMs !== undefined);
  const advice = young
    ? ". Servers that were never used before can be declared so: connect(url, { engine: { fresh: true } }), or redlock({ clients, fresh: true })"
    : "";
  // Enough may have answered, and yet not the same: then it would have been up to the others.
  const lack =
    able < majority
      ? `only ${able} of ${count} servers can be relied on, and ${majority} are needed`
      : `${majority} of ${count} servers have to say the same, and it is up to those that did not`;
  const text = `${lack}: ${why}${advice}`;
  const hopeless = reports.filter(({ error }) => isLockError(error) && !error.retryable);
  const cause = reports.find(({ error }) => error !== undefined)?.error;
  const about = { name: lock, cause };
  if (hopeless.length <= count - majority) return backendError(text, { ...about, retryable: true });
  const unsupported = hopeless.every(({ error }) => isLockError(error, "unsupported"));
  return unsupported
    ? new LockError("unsupported", text, about)
    : backendError(text, { ...about, retryable: false });
}

/** A quorum that is said to be new can be told so only when all of its servers can be. */
export function notAllNew(failures: readonly Report[]): LockError {
  const retryable = failures.every(({ error }) => !isLockError(error) || error.retryable);
  const why = failures.map(describe).join("; ");
  return backendError(
    `whether this quorum is new, as fresh: true says, is known when all of its servers answer: ${why}`,
    { retryable, cause: failures[0]?.error },
  );
}

function describe({ node, error, votesInMs }: Report): string {
  if (votesInMs !== undefined) {
    return `${node.where} has lost its memory or is new, and votes in ${formatMs(votesInMs)}`;
  }
  const text = isLockError(error) ? error.message : plainText(asError(error).message);
  return text.includes(node.where) ? text : `${node.where}: ${text}`;
}

/** Others use longer leases: they would be cut short by a node that forgets them and waits only for ours. */
export function disagreement(agreedMs: number, maxTtlMs: number): LockError {
  return unsupported(
    `the servers of this quorum were asked with a maxTtl of ${formatMs(agreedMs)}, and this one is ${formatMs(maxTtlMs)}: all processes have to say the same, or a server that loses its memory would vote too early. Say connect(url, { engine: { maxTtl: ${agreedMs} } })`,
  );
}

/** What a majority of nodes cannot promise is refused, with the reason. */
export function refuseTheImpossible(request: ClaimRequest, { maxTtlMs }: RedlockSettings): void {
  const { name, capacity, weight, ttlMs, minHoldMs, maxWaiters } = request;
  if (capacity !== WHOLE || (weight !== WHOLE && weight !== 1)) {
    throw unsupported(
      "semaphores are not offered by a quorum: majorities of its servers, each with room for two holders, would let in three",
      name,
    );
  }
  if (maxWaiters !== undefined) throw unsupported("maxWaiters: a quorum keeps no queue to be counted", name);
  refuseLongerThan(maxTtlMs, "ttl", ttlMs, name);
  refuseLongerThan(maxTtlMs, "minHold", minHoldMs, name);
}

export function refuseLongerThan(maxTtlMs: number, option: string, ms: number, name?: string): void {
  if (ms <= maxTtlMs) return;
  throw unsupported(
    `${option}: ${formatMs(ms)} is longer than the maxTtl of this quorum, ${formatMs(maxTtlMs)}. Let the lease be renewed, or let every process that uses these servers have a longer one: connect(url, { engine: { maxTtl: ${Math.ceil(ms)} } })`,
    name,
  );
}

function unsupported(why: string, name?: string): LockError {
  return new LockError("unsupported", `${why}.`, { name });
}
