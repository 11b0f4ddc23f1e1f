import { type RedisClient, runScript, type Script } from "../../clients/redis/client.js";

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
