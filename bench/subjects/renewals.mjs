import { createLocks } from "locktender";
import { redis } from "locktender/redis";

const HELD = 10_000;

/** What it costs to keep many locks. */
export async function* measure({ url, client }) {
  const locks = createLocks(redis({ url }), { ttl: "6s" });
  const leases = [];
  for (let from = 0; from < HELD; from += 500) {
    const some = Array.from({ length: 500 }, (_, index) =>
      locks.mutex(["renewals", String(from + index)]).acquire(),
    );
    leases.push(...(await Promise.all(some)));
  }
  await client.config("RESETSTAT");
  const cpu = process.cpuUsage();
  await new Promise((resolve) => setTimeout(resolve, 6_000));
  const { user, system } = process.cpuUsage(cpu);
  const [, calls, usec] =
    /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(await client.info("commandstats")) ?? [];
  yield `${HELD} held for one ttl of 6 s: ${calls} requests, ${(usec / 1e6).toFixed(2)} s of the server, ${((user + system) / 1e6).toFixed(2)} s of the client; ${leases.filter((lease) => lease.held).length} still held`;
  await locks.close();
}
