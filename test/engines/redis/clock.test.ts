import type { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { shared } from "../../servers/shared.js";
import { look, open, queued } from "./tools.js";

// The server's clock cannot be set here. What it would have written before it was set back can: tickets and
// times that lie in the future.

const { url } = await shared("redis");
const port = Number(new URL(url).port);
const PREFIX = `clock-${process.pid}`;
const HOUR_MS = 3_600_000;
const AHEAD_US = BigInt(HOUR_MS) * 1_000n;

/** The only claim of a lock was drawn an hour from now. */
async function headFromTheFuture(client: Redis, name: string, ticket: bigint): Promise<bigint> {
  const key = `${PREFIX}:{${name}}`;
  const head = String(await client.get(key));
  expect(head).toContain(String(ticket));
  await client.set(key, head.replaceAll(String(ticket), String(ticket + AHEAD_US)), "PX", HOUR_MS);
  return ticket + AHEAD_US;
}

/** The claim of a lock with a queue was granted an hour from now. */
async function grantedInTheFuture(client: Redis, name: string, ticket: bigint): Promise<void> {
  const key = `${PREFIX}:{${name}}:claims`;
  for (const [id, claim] of Object.entries(await client.hgetall(key))) {
    const [own, came, granted, ...rest] = claim.split(" ");
    if (own !== String(ticket)) continue;
    const later = String(BigInt(granted ?? 0) + AHEAD_US);
    await client.hset(key, id, [own, came, later, ...rest].join(" "));
    return;
  }
  expect.unreachable("the holder is not among the claims");
}

describe("scenario S12: the server's clock was set back by an hour while a lock was held", () => {
  test("its counter is kept until the clock has caught up, so that tokens grow through it", async () => {
    const locks = open({ url, prefix: PREFIX, retention: "1m" }, { wait: "3s" });
    const client = look(port);
    const lease = await locks.mutex("counter").acquire();
    const ticket = await headFromTheFuture(client, "counter", lease.token / 1_024n);
    await lease.release();
    expect(await client.pttl(`${PREFIX}:{counter}`)).toBeGreaterThan(HOUR_MS);
    let last = ticket * 1_024n;
    for (let round = 0; round < 3; round++) {
      const token = await locks.mutex("counter").run((next) => next.token);
      expect(token).toBeGreaterThan(last);
      last = token;
      expect(await client.pttl(`${PREFIX}:{counter}`)).toBeGreaterThan(HOUR_MS);
    }
  });

  test("a release frees it at once, and not an hour later", async () => {
    const locks = open({ url, prefix: PREFIX }, { ttl: "60s" });
    const client = look(port);
    const lease = await locks.mutex("freed").acquire();
    const waiting = locks.mutex("freed").acquire({ wait: "5s" });
    waiting.catch(() => undefined);
    await queued(locks, "freed", 1);
    await grantedInTheFuture(client, "freed", lease.token / 1_024n);
    expect(await lease.release()).toBe(true);
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    expect(await next.release()).toBe(true);
    expect(await locks.mutex("freed").tryAcquire()).not.toBeNull();
  });

  test("minHold lasts for its time from the release at most, and not for the hour", async () => {
    const locks = open({ url, prefix: PREFIX }, { ttl: "1500ms" });
    const client = look(port);
    const lease = await locks.mutex("minimal").acquire({ minHold: "1s" });
    const waiting = locks.mutex("minimal").acquire({ wait: "5s" });
    waiting.catch(() => undefined);
    await queued(locks, "minimal", 1);
    await grantedInTheFuture(client, "minimal", lease.token / 1_024n);
    await lease.release();
    expect((await waiting).held).toBe(true);
  });
});
