import { createLocks } from "locktender";
import { redis } from "locktender/redis";

/** What one grant costs the server when 10 to 10,000 wait. */
export async function* measure({ url, client }) {
  for (const waiters of [10, 100, 1_000, 10_000]) {
    const locks = createLocks(redis({ url }), { ttl: "10m", wait: "10m" });
    const mutex = locks.mutex(["waiters", String(waiters)]);
    const holder = await mutex.acquire();
    const closing = new AbortController();
    let granted = 0;
    const waits = Array.from({ length: waiters }, () =>
      mutex.run({ signal: closing.signal }, () => void granted++).catch(() => undefined),
    );
    while ((await locks.inspect(mutex.name)).waiters.length < waiters)
      await new Promise((r) => setTimeout(r, 50));
    // A waiter that entered before the subscription stood asks once more when it stands.
    await new Promise((resolve) => setTimeout(resolve, 500));
    await client.config("RESETSTAT");
    await holder.release();
    while (granted < Math.min(waiters, 1_000)) await new Promise((resolve) => setTimeout(resolve, 1));
    const stats = await client.info("commandstats");
    const [, calls, usec] = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(stats) ?? [];
    yield `${waiters} waiters: ${(calls / granted).toFixed(2)} requests and ${(usec / granted).toFixed(1)} µs of the server per grant`;
    closing.abort();
    await Promise.all(waits);
    await locks.close();
  }
}
