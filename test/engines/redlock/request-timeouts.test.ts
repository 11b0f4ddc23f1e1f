import { afterAll, expect, test } from "vitest";
import { startRedisServers } from "../redis/server.js";
import { Quorum, sleep } from "./tools.js";

// How long servers are waited for: no shorter for what they are not to blame for.

const servers = await startRedisServers(3);
afterAll(() => servers.stop());

/** The event loop stands still, as in a long computation. */
function compute(forMs: number): void {
  const untilMs = performance.now() + forMs;
  while (performance.now() < untilMs);
}

test.each(["ioredis", "redis"] as const)(
  "that this process was busy for longer is no outage of the servers, by %s",
  async (library) => {
    const quorum = await Quorum.on(servers.ports);
    const locks = quorum.open({}, { library, timeout: 500 });
    await locks.mutex("a").run(() => undefined);
    const before = locks.mutex("a").tryAcquire();
    compute(700);
    const after = locks.mutex("b").tryAcquire();
    expect(await before).toMatchObject({ held: true });
    expect(await after).toMatchObject({ held: true });
  },
);

test("a lease that is soon over does not shorten the time that servers have to renew the others", async () => {
  const failures: unknown[] = [];
  const quorum = await Quorum.on(servers.ports);
  const { locks, proxies } = await quorum.behind([0, 1, 2], {
    ttl: "1500ms",
    onEvent: (event) => event.type === "renew-failed" && failures.push(event),
  });
  await locks.mutex("a").run(() => undefined);
  for (const proxy of proxies) proxy.delay({ toClientMs: 150 });
  const [lease, short] = await Promise.all([
    locks.mutex("a").acquire(),
    // Longer than the ttl, so that both are renewed together, the last time shortly before its end.
    locks.mutex("b").acquire({ maxHold: 1_650 }),
  ]);
  await expect.poll(() => short.held, { timeout: 5_000 }).toBe(false);
  await sleep(200);
  expect(lease.held).toBe(true);
  expect(failures).toEqual([]);
});
