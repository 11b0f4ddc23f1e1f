import type { RedisClient } from "../../clients/redis/client.js";
import { FreshFlight } from "../../core/single-flight.js";

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
