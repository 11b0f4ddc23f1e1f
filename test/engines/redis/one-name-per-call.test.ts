import { setTimeout as sleep } from "node:timers/promises";
import type { LockEvent } from "locktender";
import { redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { SCRIPTS } from "#lib/backends/redis/scripts.js";
import { claimRequest } from "../../support/claim-request.js";
import { type RedisSingle, startRedisOfCluster } from "./server.js";
import { CommandLog, LIBRARIES, look, open } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisOfCluster();
});
afterAll(() => server.stop());

const NAMES = Array.from({ length: 5 }, (_, index) => `name-${index}`);

async function loadScripts(): Promise<void> {
  const client = look(server.node.port);
  for (const { lua } of Object.values(SCRIPTS)) await client.script("LOAD", lua);
}

/** How many calls it has refused for this. They are in no log of commands. */
async function refusals(): Promise<number> {
  const [, count = 0] =
    /errorstat_CROSSSLOT:count=(\d+)/.exec(await look(server.node.port).info("errorstats")) ?? [];
  return Number(count);
}

describe.each(LIBRARIES)("a server that refuses keys of several slots, by %s", (library) => {
  test("behind a plain URL it is noticed once; then each claim, release and renewal goes by itself, and no event tells of it", async () => {
    await loadScripts();
    const events: LockEvent[] = [];
    const options = { url: server.url, library, prefix: `${library}-plain` };
    const locks = open(options, { ttl: "3s", onEvent: (event) => events.push(event) });
    const log = await CommandLog.of(server.node.port);
    const before = await refusals();
    const mutexes = NAMES.map((name) => locks.mutex(name));
    const leases = await Promise.all(mutexes.map((mutex) => mutex.acquire()));
    const seen = await log.during(async () => {
      await sleep(1_300); // all were renewed once
      expect(await Promise.all(leases.map((lease) => lease.release()))).toEqual(NAMES.map(() => true));
      const again = await Promise.all(mutexes.map((mutex) => mutex.acquire()));
      await Promise.all(again.map((lease) => lease.release()));
    });
    expect(await refusals()).toBe(before + 1);
    const times = ({ sha }: { sha: string }) => seen.scripts.filter((script) => script === sha).length;
    expect(times(SCRIPTS.claim)).toBe(5);
    expect(times(SCRIPTS.release)).toBe(10);
    expect(times(SCRIPTS.renew)).toBeGreaterThanOrEqual(5);
    expect(events.map(({ type }) => type)).not.toContain("renew-failed");
  });

  test("it is also noticed at a renewal, which keeps all leases", async () => {
    const events: LockEvent[] = [];
    const options = { url: server.url, library, prefix: `${library}-renewal` };
    const locks = open(options, { ttl: "3s", onEvent: (event) => events.push(event) });
    const before = await refusals();
    const leases = [];
    for (const name of NAMES) leases.push(await locks.mutex(name).acquire());
    await expect.poll(refusals, { timeout: 5_000 }).toBe(before + 1);
    // Longer than the ttl: each was renewed by itself.
    await sleep(3_200);
    expect(leases.every(({ held }) => held)).toBe(true);
    expect(events.map(({ type }) => type)).not.toContain("renew-failed");
  });

  test("in a cluster, what concerns one name goes as one call, in order", async () => {
    await loadScripts();
    const url = server.url.replace("redis:", "redis+cluster:");
    const backend = redis({ url, library, prefix: `${library}-cluster` });
    onTestFinished(() => backend.close());
    const held = NAMES.map((name) => claimRequest(name));
    await Promise.all(held.map((one) => backend.claim(one)));
    const log = await CommandLog.of(server.node.port);
    const seen = await log.during(async () => {
      const asked = held
        .slice(0, 2)
        .flatMap((one) => [backend.release(one), backend.claim(claimRequest(one.name, { queue: false }))]);
      const alone = backend.release(held[2] ?? claimRequest("none"));
      const granted = { state: "granted" };
      expect(await Promise.all([...asked, alone])).toMatchObject([true, granted, true, granted, true]);
    });
    const scripts = seen.scripts.filter((sha) => /^\w{40}$/.test(sha));
    expect(scripts).toEqual([SCRIPTS.batch.sha, SCRIPTS.batch.sha, SCRIPTS.release.sha]);
  });
});
