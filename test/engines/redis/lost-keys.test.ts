import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { Lease, Locks } from "locktender";
import { redis } from "locktender/redis";
import { describe, expect, onTestFinished, test } from "vitest";
import { LockKeyCache } from "#lib/backends/redis/keys.js";
import type { Backend, ClaimRequest } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { shared } from "../../servers/shared.js";
import { look, open, queued } from "./tools.js";

const { url } = await shared("redis");
const port = Number(new URL(url).port);
const PREFIX = `lost-keys-${process.pid}`;
const TTL_MS = 400;

/** The engine without its keeper: what is claimed by it dies like a claim of a killed process. */
function engine(): Backend {
  const backend = redis({ url, prefix: PREFIX });
  onTestFinished(() => backend.close());
  return backend;
}

function request(name: string, id: string, ttlMs = TTL_MS): ClaimRequest {
  return {
    name,
    id,
    weight: WHOLE,
    capacity: WHOLE,
    ttlMs,
    fixed: false,
    minHoldMs: 0,
    queue: true,
    owner: { instance: "test", host: "test", pid: 1 },
    note: "",
  };
}

describe("when the holder and all waiters of a lock have died", () => {
  test("the lock is free after the ttl, also if there was a queue", async () => {
    const backend = engine();
    for (const id of ["holder", "first", "second"]) await backend.claim(request("all dead", id));
    await sleep(TTL_MS + 50);
    expect(await backend.claim(request("all dead", "newcomer"))).toMatchObject({ state: "granted" });
  });

  test("a try, an acquire and a list see a free lock", async () => {
    const backend = engine();
    const locks = open({ url, prefix: PREFIX });
    for (const name of ["tried", "waited for"]) {
      for (const id of ["holder", "waiter"]) await backend.claim(request(name, id));
    }
    await sleep(TTL_MS + 50);
    expect((await locks.inspect("tried")).holders).toEqual([]);
    expect(await locks.mutex("tried").tryAcquire()).not.toBeNull();
    const lease = await locks.mutex("waited for").acquire({ wait: "2s" });
    expect(await lease.release()).toBe(true);
    expect(await locks.mutex("waited for").tryAcquire()).not.toBeNull();
  });

  test("a crowd of more than one sweep takes is out of the way at once", async () => {
    const backend = engine();
    const crowd = Array.from({ length: 1_300 }, (_, index) => request("crowd", `dead-${index}`, 1_500));
    await Promise.all(crowd.map((one) => backend.claim(one)));
    const locks = open({ url, prefix: PREFIX }, { ttl: "10s" });
    const waiting = locks.mutex("crowd").acquire({ wait: "8s" });
    expect((await waiting).held).toBe(true);
  });
});

test("a queue that is longer than one page of the list is seen whole, in order, and bounded if asked so", async () => {
  const backend = engine();
  const ids = Array.from({ length: 2_345 }, (_, index) => `claim-${index}`);
  const answers = await Promise.all(ids.map((id) => backend.claim(request("long", id, 60_000))));
  // The dead ones in the midst of a page leave a gap, and not an end.
  const dying = await Promise.all(ids.map((id) => backend.claim(request("long", `dying-${id}`, 1_500))));
  await backend.claim(request("long", "last", 60_000));
  await sleep(1_600);
  const tickets = answers.map((answer) =>
    answer.state === "waiting" || answer.state === "granted" ? answer.ticket : 0n,
  );
  const listed = async (limit?: number) => {
    for await (const { claims } of backend.list({ name: "long", ...(limit && { limit }) })) return claims;
    return [];
  };
  const all = await listed();
  expect(dying.every(({ state }) => state === "waiting")).toBe(true);
  expect(all.map(({ ticket }) => ticket).slice(0, -1)).toEqual(tickets.sort((a, b) => (a < b ? -1 : 1)));
  expect(all.at(-1)?.id).toBe("last");
  expect(await listed(1_500)).toEqual(
    all.slice(0, 1_500).map((claim) => expect.objectContaining({ id: claim.id })),
  );
});

describe("when the server loses keys of a lock (eviction, or a DEL by another program)", () => {
  const kinds = ["head", "claims", "queue"] as const;
  const subsets = Array.from({ length: 7 }, (_, index) =>
    kinds.filter((_kind, bit) => ((index + 1) >> bit) % 2 === 1),
  );

  /** A holder and two waiters lose keys, two more come. What is wrong then? */
  async function complaint(lost: readonly (typeof kinds)[number][]): Promise<string | undefined> {
    const name = `without ${lost.join(", ")}`;
    const leases: Lease[] = [await shop.mutex(name).acquire()];
    const takeTurn = async (locks: Locks) => {
      const lease = await locks.mutex(name).acquire({ wait: "6s" });
      leases.push(lease);
      await sleep(TTL_MS);
      await lease.release();
    };
    const turns = [takeTurn(shop), takeTurn(cron)];
    await queued(shop, name, 2);
    const keys = new LockKeyCache(PREFIX).of(name).usual;
    await client.del(...lost.map((kind) => keys[kinds.indexOf(kind)] as string));
    turns.push(takeTurn(shop), takeTurn(cron));
    const served = Promise.allSettled(turns);
    // A renewal tells a process that it holds no longer; one believed a whole ttl later would be so for ever.
    let sinceMs = performance.now();
    for (const untilMs = sinceMs + TTL_MS * 3; performance.now() < untilMs; await sleep(10)) {
      if (leases.filter((lease) => lease.held).length <= 1) sinceMs = performance.now();
      if (performance.now() - sinceMs > TTL_MS) return `${name}: two believe for longer than a ttl`;
    }
    await leases[0]?.release();
    const refused = (await served).filter(({ status }) => status === "rejected").length;
    if (refused > 0) return `${name}: ${refused} of 4 were not served`;
    const last = await shop.mutex(name).acquire({ wait: "2s" });
    return (await last.release()) ? undefined : `${name}: what was taken could not be given back`;
  }

  let shop: Locks;
  let cron: Locks;
  let client: Redis;

  test("whichever they are, never are two renewed side by side, and every waiter is served in the end", async () => {
    [shop, cron] = [
      open({ url, prefix: PREFIX }, { ttl: TTL_MS }),
      open({ url, prefix: PREFIX }, { ttl: TTL_MS }),
    ];
    client = look(port);
    expect((await Promise.all(subsets.map(complaint))).filter(Boolean)).toEqual([]);
  });
});
