import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createLocks } from "locktender";
import { redlock } from "locktender/redlock";
import { afterAll, expect, test } from "vitest";
import { expectAllPromisesKept, QUICK } from "../../history/expectations.js";
import { startRedisServers } from "../redis/server.js";

const servers = await startRedisServers(5);
afterAll(() => servers.stop());

const backend = (maxTtl: `${number}ms` | "1m") => ({
  module: new URL("./worker-backend.mjs", import.meta.url).href,
  args: {
    url: `redlock://${servers.ports.map((port) => `127.0.0.1:${port}`).join(",")}`,
    prefix: `history-${randomUUID()}`,
    fresh: true,
    maxTtl,
  },
});

/** Before anything happens: a process that is killed while it declares its nodes new leaves some that do not vote. */
async function declare({ args }: ReturnType<typeof backend>): Promise<void> {
  await using locks = createLocks(redlock(args), { ttl: "300ms" });
  await locks.mutex("declared").run(() => undefined);
}

test("a quorum keeps every promise while processes are killed and stopped on the way", async () => {
  const plan = backend("1m");
  await declare(plan);
  await expectAllPromisesKept(plan, QUICK, { queueing: false });
});

test("and while two of its servers are stopped, killed and come back without what they knew", async () => {
  const over = new AbortController();
  const [, , , third, fourth] = servers.nodes;
  if (third === undefined || fourth === undefined) return expect.unreachable();
  const plan = backend("400ms");
  await declare(plan);
  const disturb = async (node: typeof third, first: number) => {
    for (let round = first; !over.signal.aborted; round++) {
      if (round % 2) {
        node.process.pause();
        await sleep(250);
        node.process.resume();
      } else {
        await node.process.restart();
      }
      await sleep(300);
    }
  };
  const disturbances = Promise.all([disturb(third, 0), disturb(fourth, 1)]);
  try {
    // A lease may stand on three servers of which one forgets it: its holder is told, before its time is up.
    const except = ["a lease lasts as long as it says"] as const;
    // Where the votes of the other three are split, it is up to those two, and they are away for longer than a ttl.
    const outage = /got an error .*it is up to those that did not/;
    await expectAllPromisesKept(plan, QUICK, { queueing: false, except, outage });
  } finally {
    over.abort();
    await disturbances;
  }
});
