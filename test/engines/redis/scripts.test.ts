import { setTimeout as sleep } from "node:timers/promises";
import type { Lease, LockEvent, Locks } from "locktender";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SCRIPTS } from "#lib/backends/redis/scripts.js";
import { type RedisSingle, startRedisSingle } from "./server.js";
import { CommandLog, LIBRARIES, look, open, queued } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

/** A connection on which everything is set up: the scripts are known and the subscription stands. */
async function warm(locks: Locks): Promise<Locks> {
  const client = look(server.node.port);
  for (const { lua } of Object.values(SCRIPTS)) await client.script("LOAD", lua);
  const mutex = locks.mutex("warm", { fair: true });
  await mutex.run(async () => {
    await mutex.acquire({ within: null, wait: 50 }).catch(() => undefined);
  });
  return locks;
}

async function waiters(locks: Locks, name: string, count: number): Promise<Promise<Lease>[]> {
  const waits = Array.from({ length: count }, () =>
    locks.mutex(name, { fair: true }).acquire({ wait: "60s" }),
  );
  for (const wait of waits) wait.catch(() => undefined); // the end of a test sends away the calls that still wait
  await queued(locks, name, count);
  return waits;
}

describe.each(LIBRARIES)("scripts, by %s", (library) => {
  const options = () => ({ url: server.url, library, prefix: library });

  test("an uncontended acquire is one round trip, and so is its release", async () => {
    const locks = await warm(open(options()));
    const log = await CommandLog.of(server.node.port);
    let lease: Lease | undefined;
    const acquired = await log.during(async () => {
      lease = await locks.mutex("one").acquire();
    });
    expect(acquired.asked).toEqual(["evalsha"]);
    expect(acquired.inScripts).toEqual(["time", "get", "set"]);
    const released = await log.during(async () => lease?.release());
    expect(released.asked).toEqual(["evalsha"]);
    expect(released.inScripts).toEqual(["time", "get", "set"]);
    expect((await log.during(() => locks.mutex("one").run(() => undefined))).asked).toEqual([
      "evalsha",
      "evalsha",
    ]);
  });

  test("a try that is refused is one round trip, and waiting costs nothing but the batched heartbeat", async () => {
    const locks = await warm(open(options(), { ttl: "1500ms" }));
    const others = await warm(open(options()));
    const log = await CommandLog.of(server.node.port);
    const holder = await others.mutex("busy").acquire();
    expect((await log.during(() => locks.mutex("busy").tryAcquire())).asked).toEqual(["evalsha"]);
    const waits = await waiters(locks, "busy", 50);
    const { asked, scripts } = await log.during(() => sleep(1_200));
    // A beat is due every 500 ms, and they all share it.
    expect(asked.length).toBeGreaterThanOrEqual(1);
    expect(asked.length).toBeLessThanOrEqual(4);
    expect(new Set(scripts)).toEqual(new Set([SCRIPTS.renew.sha]));
    await holder.release();
    for (const wait of waits) await (await wait).release();
  });

  test("a hand-off is one release and one notification, and the waiter that gets it asks nothing", async () => {
    const locks = await warm(open(options(), { ttl: "60s" }));
    const others = await warm(open(options(), { ttl: "60s" }));
    const log = await CommandLog.of(server.node.port);
    const holder = await locks.mutex("handed").acquire();
    const [next] = await waiters(others, "handed", 3);
    const seen = await log.during(async () => {
      await holder.release();
      await next;
      await sleep(50);
    });
    expect(seen.asked).toEqual(["evalsha"]);
    expect(seen.scripts).toEqual([SCRIPTS.release.sha]);
    expect(seen.inScripts.filter((command) => command === "publish")).toHaveLength(1);
  });

  test("what a step costs the server does not grow with the number of waiters", async () => {
    const locks = await warm(open(options(), { ttl: "60s" }));
    const others = await warm(open(options(), { ttl: "60s" }));
    const log = await CommandLog.of(server.node.port);
    const stepsWith = async (name: string, count: number) => {
      const holder = await others.mutex(name).acquire();
      const [next] = await waiters(locks, name, count);
      const controller = new AbortController();
      const { signal } = controller;
      const leaver = locks.mutex(name, { fair: true }).acquire({ signal });
      leaver.catch(() => undefined);
      await queued(locks, name, count + 1);
      const tries = await log.during(() => locks.mutex(name).tryAcquire());
      const leaves = await log.during(async () => {
        controller.abort(new Error("left"));
        await leaver.catch(() => undefined);
        await sleep(50);
      });
      const handsOver = await log.during(async () => {
        await holder.release();
        await next;
      });
      return [tries, leaves, handsOver].map(({ asked, inScripts }) => [asked, inScripts]);
    };
    expect(await stepsWith("long queue", 400)).toEqual(await stepsWith("short queue", 4));
  });

  test("a server that forgets its scripts at any moment costs no caller anything", async () => {
    const events: LockEvent[] = [];
    const locks = open(options(), { ttl: "600ms", onEvent: (event) => events.push(event) });
    // On a busy machine, to open the connection may take longer than a ttl: that is a slow wait.
    await locks.inspect("kept");
    const client = look(server.node.port);
    const held = await Promise.all(
      Array.from({ length: 30 }, (_, index) => locks.mutex(["kept", String(index)]).acquire()),
    );
    let flushing = true;
    const flushes = (async () => {
      while (flushing) await client.script("FLUSH", "SYNC");
    })();
    let inside = 0;
    const until = performance.now() + 1_300;
    const worker = async () => {
      while (performance.now() < until) {
        await locks.mutex("turns").run(async () => {
          expect(++inside).toBe(1);
          await sleep(1);
          inside--;
        });
      }
    };
    await Promise.all([worker(), worker(), worker()]);
    flushing = false;
    await flushes;
    expect(held.filter((lease) => lease.held)).toHaveLength(30);
    expect(await Promise.all(held.map((lease) => lease.release()))).toEqual(held.map(() => true));
    const troubles = events.filter(({ type }) => type !== "acquired" && type !== "released");
    expect(troubles).toEqual([]);
  });

  test("holders and waiters ride through a restart that keeps the data", async () => {
    const locks = open(options(), { ttl: "10s" });
    const lease = await locks.mutex("restart").acquire();
    const [next] = await waiters(open(options(), { ttl: "10s" }), "restart", 1);
    await look(server.node.port).call("SAVE");
    await server.node.process.restart();
    expect(lease.held).toBe(true);
    await expect.poll(() => lease.release().catch(() => false), { timeout: 8_000 }).toBe(true);
    const successor = await next;
    expect(successor?.held).toBe(true);
    expect(successor?.token).toBeGreaterThan(lease.token);
  });
});
