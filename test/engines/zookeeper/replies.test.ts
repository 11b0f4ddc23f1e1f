import { setTimeout as sleep } from "node:timers/promises";
import { createLocks } from "locktender";
import { zookeeper } from "locktender/zookeeper";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { ERROR, OP } from "#lib/backends/zookeeper/messages.js";
import { type AlteredReplies, alteredReplies, hasBody, refusing, SPOIL } from "./altered-replies.js";
import { startZooKeeper, type ZooKeeper } from "./server.js";

let server: ZooKeeper;
beforeAll(async () => {
  server = await startZooKeeper({});
});
afterAll(() => server.stop());

async function start(): Promise<AlteredReplies> {
  const altered = await alteredReplies(server);
  onTestFinished(() => altered.close());
  return altered;
}

/** Every reply that has a body, and what may be wrong with it. */
const SPOILT = {
  create2: [OP.create2, ["cut", "empty", "tooLong", "negative"]],
  multi: [OP.multi, ["cut", "empty", "tooLong"]],
  getChildren: [OP.getChildren, ["cut", "empty", "tooLong", "negative"]],
  getData: [OP.getData, ["cut", "empty", "tooLong", "negative"]],
  setData: [OP.setData, ["cut", "empty", "negative"]],
} as const;

/** Everything that reads a reply, each at a name of its own. */
async function useAll(url: string, prefix: string): Promise<unknown[]> {
  const locks = createLocks(zookeeper({ url, prefix, timeout: "1s" }), { ttl: "3s" });
  const cell = locks.cell<number>("kept");
  const settled = await Promise.allSettled([
    locks.mutex("tried").tryRun(async () => {}),
    locks.mutex("waited for").run({ wait: "500ms" }, async () => {}),
    locks.inspect("seen"),
    cell.write(1).then(() => cell.update((value = 0) => value + 1)),
  ]);
  await locks.close({ drain: 0, abort: 0 });
  return settled.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
}

describe.each(Object.entries(SPOILT))("a reply to %s that cannot be read", (opName, [op, ways]) => {
  test.each(ways)("its body is spoilt (%s): every request fails, and close ends", async (way) => {
    const altered = await start();
    altered.alter = (reply) => (reply.op === op && hasBody(reply) ? SPOIL[way](reply.bytes) : reply.bytes);
    const failures = await useAll(altered.url, `spoilt-${opName}-${way}`);
    expect(failures.length).toBeGreaterThan(0);
    for (const failure of failures) expect(failure).toMatchObject({ code: "backend" });
  });

  test("once: what was asked is asked again, and is granted", async () => {
    const altered = await start();
    let left = 1;
    altered.alter = (reply) =>
      reply.op === op && hasBody(reply) && left-- > 0 ? SPOIL.cut(reply.bytes) : reply.bytes;
    const locks = createLocks(zookeeper({ url: altered.url, prefix: `once-${opName}` }), { ttl: "10s" });
    const lease = await locks.mutex("orders").acquire({ wait: "10s" });
    expect(await lease.release()).toBe(true);
    await locks.close();
  });
});

test("a server that has no root and makes none is not asked for ever", async () => {
  const altered = await start();
  const creating: readonly number[] = [OP.create2, OP.createContainer];
  altered.alter = ({ op, bytes }) => (creating.includes(op) ? refusing(bytes, ERROR.noNode) : bytes);
  const locks = createLocks(zookeeper({ url: altered.url, prefix: "no/root" }), { ttl: "10s" });
  await expect(locks.mutex("orders").acquire({ wait: "2s" })).rejects.toMatchObject({
    code: "backend",
    message: expect.stringContaining('NoNode, for "/no"'),
  });
  await expect(locks.cell("orders").write(1)).rejects.toMatchObject({ code: "backend" });
  const before = altered.requests;
  expect(before).toBeLessThan(100);
  await sleep(500);
  expect(altered.requests - before).toBeLessThan(10);
  await locks.close();
});
