import { randomBytes } from "node:crypto";

const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/** What people write by hand: SET NX PX, and a script that deletes only one's own key. */
export async function bareLock(client) {
  const sha = await client.script("LOAD", RELEASE);
  return async (key) => {
    const id = randomBytes(16).toString("base64url");
    if ((await client.set(key, id, "PX", 15_000, "NX")) !== "OK") throw new Error("taken");
    await client.evalsha(sha, 1, key, id);
  };
}

export async function timeMs(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

export function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}
