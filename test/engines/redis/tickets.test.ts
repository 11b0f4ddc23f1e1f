import { Redis } from "ioredis";
import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { afterAll, expect, test } from "vitest";
import { shared } from "../../servers/shared.js";

const { url } = await shared("redis");
const prefix = `tickets-${process.pid}`;
const client = new Redis(url);
const locks = createLocks(redis({ url, prefix }));

afterAll(async () => {
  await locks.close();
  client.disconnect();
});

/** The server's clock once ran this far ahead, gave out a ticket, and was set right. */
async function clockWasAhead(name: string, byMs: number): Promise<bigint> {
  const [seconds = 0] = await client.time();
  const ticket = BigInt(seconds) * 1_000_000n + BigInt(byMs) * 1_000n;
  await client.set(`${prefix}:{${name}}`, ticket.toString(), "PX", byMs);
  return ticket * 1024n;
}

test("tokens keep growing after the server's clock was set back, also through idle times", async () => {
  let last = await clockWasAhead("ahead", 3_600_000);
  for (let round = 0; round < 5; round++) {
    const token = await locks.mutex("ahead").run((lease) => lease.token);
    expect(token).toBeGreaterThan(last);
    last = token;
  }
});

test("the counter of an idle name is kept until the clock has passed its last ticket by the retention", async () => {
  await clockWasAhead("kept", 3_600_000);
  await locks.mutex("kept").run(() => undefined);
  expect(await client.pttl(`${prefix}:{kept}`)).toBeGreaterThan(3_600_000);
  // A connection that has not seen that clock: the other one's tickets are now ahead at every name.
  const others = createLocks(redis({ url, prefix }));
  await others.mutex("short").run(() => undefined);
  await others.close();
  const keptMs = await client.pttl(`${prefix}:{short}`);
  expect(keptMs).toBeGreaterThan(9 * 60_000);
  expect(keptMs).toBeLessThanOrEqual(10 * 60_000 + 1_000);
});
