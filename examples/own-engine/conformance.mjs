// The conformance suite of Locktender on the engine of this folder, by the test runner of Node.js. It takes some minutes:
//   REDIS_URL=redis://127.0.0.1:6379 node --test examples/own-engine/conformance.mjs
import { randomUUID } from "node:crypto";
import { describe, test } from "node:test";
import { Redis } from "ioredis";
import { conformance } from "locktender/testing";
import { compareAndSet } from "./engine.mjs";

/** What the suite has to know of an engine. What an engine lacks is `{ skip: "the reason" }`. */
export function harnessOf(url) {
  const { hostname: host, port } = new URL(url);
  const prefix = `own-${randomUUID().slice(0, 8)}`;
  const retentionMs = 100;
  return {
    engine: "compare-and-set",
    open: () => compareAndSet({ url, prefix }),
    // A child process imports this module and calls its default export with these arguments.
    processes: { module: new URL("./engine.mjs", import.meta.url).href, args: { url, prefix } },
    // The cases cut the connection at requests in which the name of a lock stands.
    network: {
      target: { host, port: Number(port) },
      open: (proxy) => compareAndSet({ url: `redis://${proxy.host}:${proxy.port}`, prefix }),
    },
    wipe: async () => void (await keysBelow(url, prefix, (client, keys) => client.del(...keys))),
    leftovers: {
      open: () => compareAndSet({ url, prefix: `${prefix}-counted`, retentionMs }),
      count: () => keysBelow(url, `${prefix}-counted`, () => {}),
      retentionMs,
    },
    crowd: { waiters: 100, why: "every change of a queue is a comparison with all of it" },
    cells: { skip: "an engine may have no cells" },
    sticky: { skip: "it does not tell a holder that another process waits" },
    disguises: { skip: "the rule is that of memory, which shows it" },
  };
}

async function keysBelow(url, prefix, withAll) {
  const client = new Redis(url);
  const keys = await client.keys(`${prefix}:*`);
  if (keys.length > 0) await withAll(client, keys);
  client.disconnect();
  return keys.length;
}

/** Some cases wait for longer than test runners usually allow. */
const runner = {
  describe,
  test: (name, body) => test(name, { timeout: 60_000 }, body),
  skip: (name, reason) => test(name, { skip: reason }),
};

if (process.env.REDIS_URL !== undefined) conformance(runner, harnessOf(process.env.REDIS_URL));
