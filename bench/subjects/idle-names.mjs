import { createLocks } from "locktender";
import { redis } from "locktender/redis";

const NAMES = 1_000_000;
const AT_ONCE = 500;

/** A million names, each used once: what they cost until their retention is over, and after it. */
export async function* measure({ url, client }) {
  const used = async () => Number(/used_memory:(\d+)/.exec(await client.info("memory"))[1]);
  const locks = createLocks(redis({ url, prefix: "idle", retention: "2m" }));
  const before = await used();
  const start = performance.now();
  for (let from = 0; from < NAMES; from += AT_ONCE) {
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, index) =>
        locks.mutex(["order", String(from + index)]).run(() => undefined),
      ),
    );
  }
  const tookS = (performance.now() - start) / 1_000;
  const keys = await client.dbsize();
  yield `${NAMES} names used once in ${tookS.toFixed(0)} s; ${keys} keys left, ${(((await used()) - before) / keys).toFixed(0)} bytes each`;
  while ((await client.dbsize()) > 0) await new Promise((resolve) => setTimeout(resolve, 1_000));
  yield `after the retention of 2 min: ${await client.dbsize()} keys, ${(((await used()) - before) / 1e6).toFixed(1)} MB more than before`;
  await locks.close();
}
