import { makeScript, type RedisClient, runScript, type Script } from "../../clients/redis/client.js";
import { FreshFlight } from "../../core/concurrency.js";
import { lua } from "./lua.generated.js";

export const LUA = {
  claim: lua.draw + lua["claim-idle"] + lua.common + lua.claim,
  renew: lua.common + lua.renew,
  release: lua["release-only"] + lua.common + lua.release,
  list: lua.common + lua.list,
  cell: lua.draw + lua.cell,
};

export const SCRIPTS = {
  claim: makeScript(LUA.claim),
  renew: makeScript(LUA.renew),
  release: makeScript(LUA.release),
  list: makeScript(LUA.list),
  cell: makeScript(LUA.cell),
};

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
