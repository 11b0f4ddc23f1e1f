import { setTimeout as sleep } from "node:timers/promises";
import type { LockEvent } from "locktender";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { lockKeys } from "#lib/backends/redis/keys.js";
import { askRedis, type RedisCluster, startRedisCluster } from "../servers/redis.js";
import { LIBRARIES, open, queued } from "./tools.js";

let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startRedisCluster();
  // As large clusters are run: who has lost one master still serves the slots of the others.
  for (const { port } of cluster.nodes) {
    await askRedis(port, "CONFIG", "SET", "cluster-require-full-coverage", "no");
  }
});
afterAll(() => cluster.stop());

/** A name whose keys live on that node. */
async function nameOn(node: number, prefix: string, base: string): Promise<string> {
  for (let index = 0; ; index++) {
    const name = `${base}-${index}`;
    const slot = await askRedis(cluster.nodes[0]?.port ?? 0, "CLUSTER", "KEYSLOT", lockKeys(prefix, name)[0]);
    if (Math.floor((Number(slot) * cluster.nodes.length) / 16_384) === node) return name;
  }
}

describe.each(LIBRARIES)("one master of a cluster dies, by %s", (library) => {
  test("its locks are an error, those of the others go on, and it serves again when it is back", async () => {
    const prefix = `outage-${library}`;
    const events: LockEvent[] = [];
    const options = { url: cluster.url, library, prefix, timeout: "1s" } as const;
    const locks = open(options, { ttl: "3s", onEvent: (event) => events.push(event) });
    const others = open(options, { ttl: "3s" });
    const victim = 1;
    const gone = await nameOn(victim, prefix, "gone");
    const [kept, handed, fresh] = await Promise.all([
      nameOn(0, prefix, "kept"),
      nameOn(2, prefix, "handed"),
      nameOn(0, prefix, "fresh"),
    ]);
    const held = await Promise.all([kept, handed].map((name) => locks.mutex(name).acquire()));
    const lost = await locks.mutex(gone).acquire();
    const waiting = others.mutex(handed).acquire({ wait: "20s" });
    waiting.catch(() => undefined);
    await queued(locks, handed, 1);

    await cluster.nodes[victim]?.process.kill();
    let restarted: Promise<void> | undefined;
    const restart = () => (restarted ??= cluster.nodes[victim]?.process.restart());
    onTestFinished(() => restart());
    const refused = others.mutex(gone).tryAcquire();
    await expect(refused).rejects.toMatchObject({ code: "backend", retryable: true });
    await expect(others.mutex(gone).acquire({ wait: 700 })).rejects.toMatchObject({ code: "backend" });
    await expect.poll(() => lost.signal.aborted, { timeout: 6_000 }).toBe(true);
    expect(lost.signal.reason).toMatchObject({ loss: "expired" });

    // Longer than their ttl: they live because they are renewed.
    await sleep(3_200);
    expect(held.map((lease) => lease.held)).toEqual([true, true]);
    expect(events.filter(({ type }) => type === "lost").map((event) => "name" in event && event.name)).toEqual([gone]);
    expect(await others.mutex(fresh).tryAcquire()).not.toBeNull();
    await held[1]?.release();
    const next = await waiting;
    expect(next.token).toBeGreaterThan(held[1]?.token ?? 0n);

    await restart();
    const back = async () => (await others.mutex(gone).acquire({ wait: "1s" })).token;
    await expect.poll(() => back().catch(() => 0n), { timeout: 15_000 }).toBeGreaterThan(lost.token);
  });
});
