import { makeScript, type RedisClient, runScript, type Script } from "../../clients/redis/client.js";
import { toUs } from "../../clients/redis/replies.js";
import type { ClaimRequest } from "../../core/backend.js";
import { FreshFlight } from "../../core/concurrency.js";
import { metadataOf } from "../../engine-kit/replies.js";
import { lua } from "./lua.generated.js";

export const SCRIPTS = {
  claim: makeScript(lua.draw + lua["claim-idle"] + lua.common + lua.claim),
  renew: makeScript(lua.common + lua.renew),
  release: makeScript(lua["release-only"] + lua.common + lua.release),
  list: makeScript(lua.common + lua.list),
  cell: makeScript(lua.draw + lua.cell),
};

/** The arguments of claim.lua. Most calls ask for the same as the call before, so the texts are kept. */
export class ClaimArgs {
  readonly #channel: string;
  readonly #retentionMs: number;
  #last: ClaimRequest | undefined;
  #shape = "";
  #terms = "";
  #keptMs: string | undefined;

  constructor(channel: string, retentionMs: number) {
    this.#channel = channel;
    this.#retentionMs = retentionMs;
  }

  /** The floor is the lowest ticket to draw; 0 for a claim that has one already. */
  of(request: ClaimRequest, floor: number): readonly string[] {
    const last = this.#last;
    if (last === undefined || !asksTheSame(last, request)) this.#make(request);
    const args = [`${request.id} ${this.#shape}`, this.#terms, String(floor)];
    if (this.#keptMs !== undefined) args.push(this.#keptMs);
    return args;
  }

  #make(request: ClaimRequest): void {
    const { ticket, ttlMs, minHoldMs, capacity, weight, fixed, queue, maxWaiters = -1 } = request;
    const grantMs = Math.max(ttlMs, minHoldMs);
    const simple = ticket === undefined && minHoldMs === 0;
    const who = `${this.#channel} ${JSON.stringify(metadataOf(request))}`;
    this.#last = request;
    this.#keptMs = simple ? String(Math.ceil(Math.max(grantMs, this.#retentionMs)) + 1) : undefined;
    this.#shape = `${toUs(grantMs)} ${capacity} ${weight} ${fixed ? 1 : 0} ${toUs(minHoldMs)} ${who}`;
    this.#terms = `${ticket ?? 0} ${toUs(ttlMs)} ${queue ? maxWaiters : "try"} ${this.#retentionMs}`;
  }
}

/** Apart from the id. Each by its name, because that is quicker than a loop, and this is done for each claim. */
function asksTheSame(a: ClaimRequest, b: ClaimRequest): boolean {
  return (
    a.owner === b.owner &&
    a.note === b.note &&
    a.resize === b.resize &&
    a.ticket === b.ticket &&
    a.ttlMs === b.ttlMs &&
    a.minHoldMs === b.minHoldMs &&
    a.capacity === b.capacity &&
    a.weight === b.weight &&
    a.fixed === b.fixed &&
    a.queue === b.queue &&
    a.maxWaiters === b.maxWaiters
  );
}

const questions = new WeakMap<RedisClient, FreshFlight<number>>();

/**
 * How many replicas have all that was written by that connection until now. One question serves all grants that are
 * under way: it is asked after each of them was written, and covers all that was written before it. While a replica is
 * missing, each question blocks its connection.
 */
export function replicasThatHave(client: RedisClient, ask: () => Promise<number>): Promise<number> {
  const known = questions.get(client) ?? new FreshFlight<number>();
  questions.set(client, known);
  return known.run(ask);
}

/** ioredis tries again by itself, is sent to and fro between the two nodes, and shows only the last of it. */
const MOVING = /\bTRYAGAIN\b|Too many Cluster redirections/;

/** How many of a lock's keys there are: the head of an uncontended one, or those of a queue. */
const THERE = [1, 3];

/**
 * While a cluster moves a slot, it refuses scripts some of whose keys do not exist, as is usual with locks.
 * So only those that may be there are named. The scripts fail before they write anything if they need more;
 * then what was said first stands.
 */
export async function tryFewerKeys(
  error: unknown,
  client: RedisClient,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  if (!(error instanceof Error) || !MOVING.test(error.message)) throw error;
  for (const count of THERE.filter((fewer) => fewer < keys.length)) {
    try {
      return await runScript(client, script, keys.slice(0, count), args);
    } catch {
      // Not with these keys either.
    }
  }
  throw error;
}
