import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { type RedisOptions, redis } from "locktender/redis";
import { sqlite } from "locktender/sqlite";
import { afterAll, describe, inject, test } from "vitest";
import { commands, sideBySide } from "./side-by-side.js";

const folder = mkdtempSync(join(tmpdir(), "locktender-model-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const engines = {
  sqlite: () => sqlite({ file: join(folder, "locks.db") }),
  "redis by ioredis": () => redis(options("redisSingle", "ioredis")),
  "redis by node-redis": () => redis(options("redisSingle", "redis")),
  "a redis cluster": () => redis(options("redisCluster", "ioredis")),
};

function options(server: "redisSingle" | "redisCluster", library: "ioredis" | "redis"): RedisOptions {
  return { url: inject(server).url, library, prefix: `model-${process.pid}-${library}` };
}

describe.concurrent("the rule and every answer are the same as in memory, whatever is asked in whatever order", () => {
  for (const [engine, open] of Object.entries(engines)) {
    test(`${engine} answers as memory does`, async () => {
      const backend = open();
      await fc.assert(
        fc.asyncProperty(commands, (list) => sideBySide(backend, list)),
        { numRuns: 120, interruptAfterTimeLimit: 20_000 },
      );
      await backend.close();
    });
  }
});
