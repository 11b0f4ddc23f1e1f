import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { conformance, type Harness } from "locktender/testing";
// @ts-expect-error: an example in JavaScript
import { compareAndSet } from "../../examples/own-engine/engine.mjs";
import { shared } from "../servers/shared.js";
import { runner } from "../support/runner.js";

// The engine of the page about the engine kit: a compare-and-set store, and the executable rule.

const { url } = await shared("redis");
const prefix = `own-${randomUUID().slice(0, 8)}`;
const port = Number(/:(\d+)$/.exec(url)?.[1]);
const RETENTION_MS = 100;

async function keysOf(
  under: string,
  withEach: (client: Redis, keys: readonly string[]) => unknown,
): Promise<number> {
  const client = new Redis(port);
  const keys = await client.keys(`${under}:*`);
  if (keys.length > 0) await withEach(client, keys);
  client.disconnect();
  return keys.length;
}

const harness: Harness = {
  engine: "compare-and-set",
  open: () => compareAndSet({ url, prefix }),
  processes: {
    module: new URL("../../examples/own-engine/engine.mjs", import.meta.url).href,
    args: { url, prefix },
  },
  network: {
    target: { host: "127.0.0.1", port },
    open: (proxy) => compareAndSet({ url: `redis://${proxy.host}:${proxy.port}`, prefix }),
  },
  wipe: async () => void (await keysOf(prefix, (client, keys) => client.del(...keys))),
  leftovers: {
    open: () => compareAndSet({ url, prefix: `${prefix}-counted`, retentionMs: RETENTION_MS }),
    count: () => keysOf(`${prefix}-counted`, () => undefined),
    retentionMs: RETENTION_MS,
  },
  crowd: { waiters: 100, why: "every change of a queue is a comparison with all of it" },
  cells: { skip: "an engine may have no cells" },
  disguises: { skip: "the rule is that of memory, which shows it" },
};

conformance(runner, harness);
