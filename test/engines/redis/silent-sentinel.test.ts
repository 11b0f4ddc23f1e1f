import { afterAll, beforeAll, expect, test } from "vitest";
import { type RedisSentinel, startRedisSentinel } from "./server.js";
import { LIBRARIES, open } from "./tools.js";

let redis: RedisSentinel;
beforeAll(async () => {
  redis = await startRedisSentinel();
});
afterAll(() => redis.stop());

test.each(LIBRARIES)("the first sentinel is silent, and the others are asked: %s", async (library) => {
  const [first] = redis.sentinels;
  first?.process.pause();
  try {
    const locks = open({ url: redis.url, library });
    expect(await locks.mutex(`silent-sentinel:${library}`).run({ wait: "10s" }, () => "in")).toBe("in");
  } finally {
    first?.process.resume();
  }
});

test.each(LIBRARIES)("the master is silent, and a wait ends in time all the same: %s", async (library) => {
  redis.master.process.pause();
  try {
    // No failover: a sentinel that answers goes on naming the master that does not.
    for (const { process } of redis.sentinels.slice(1)) process.pause();
    const locks = open({ url: redis.url, library, timeout: "500ms" });
    const waiting = locks.mutex("silent-master").acquire({ wait: "1s" });
    await expect(waiting).rejects.toMatchObject({ code: "backend", retryable: true });
  } finally {
    for (const { process } of [redis.master, ...redis.sentinels]) process.resume();
  }
});
