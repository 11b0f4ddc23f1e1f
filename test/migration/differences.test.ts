import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { Redis } from "ioredis";
import { connect } from "locktender";
import { afterAll, describe, expect, test } from "vitest";
import { shared } from "../servers/shared.js";
import { INSTALLED } from "../support/packed.js";
import { installPeers } from "./peers.js";

// What the pages about moving say of the other libraries, where it differs from ours and is not in their own pages.

const { url } = await shared("redis");
const require = createRequire(join(await installPeers(), "package.json"));
const addressOf = (name: string) => pathToFileURL(require.resolve(name)).href;
const { default: Redlock } = require("redlock");
const { Mutex } = require("redis-semaphore");
const { Verrou } = await import(addressOf("@verrou/core"));
const { redisStore } = await import(addressOf("@verrou/core/drivers/redis"));

const client = new Redis(url);
afterAll(() => client.quit());
const newName = () => `differs:${randomUUID()}`;
/** Held by another one for so long. */
const taken = (key: string, ms: number) => client.set(key, "another", "PX", ms);

describe("redlock", () => {
  const redlock = new Redlock([client]);

  test("asks for 2 s, and says the same of a lock that is taken and of a server that is away", async () => {
    const name = newName();
    await taken(name, 20_000);
    const asked = performance.now();
    await expect(redlock.acquire([name], 1_000)).rejects.toMatchObject({ name: "ExecutionError" });
    // Ten pauses of 100 to 300 ms.
    expect(performance.now() - asked).toBeGreaterThan(990);
    expect(performance.now() - asked).toBeLessThan(5_000);
    const away = new Redis({
      port: 1,
      lazyConnect: true,
      maxRetriesPerRequest: 0,
      retryStrategy: () => null,
    });
    const refused = new Redlock([away], { retryCount: 0 }).acquire([name], 1_000);
    await expect(refused).rejects.toMatchObject({ name: "ExecutionError" });
  });

  test("a lock that is taken is an event error", async () => {
    const name = newName();
    await taken(name, 20_000);
    const errors: Error[] = [];
    const other = new Redlock([client], { retryCount: 0 }).on("error", (error: Error) => errors.push(error));
    await other.acquire([name], 1_000).catch(() => {});
    expect(new Set(errors.map((error) => error.name))).toEqual(new Set(["ResourceLockedError"]));
  });

  test("the ttl counts from the first attempt: a lock that was waited for may be expired; ours is held", async () => {
    const name = newName();
    await taken(name, 600);
    const lock = await redlock.acquire([name], 500);
    expect(lock.expiration).toBeLessThan(Date.now());
    await using locks = await connect(url);
    const first = await locks.mutex(name).acquire();
    const second = locks.mutex(name).acquire({ ttl: "500ms" });
    await sleep(600);
    await first.release();
    expect((await second).held).toBe(true);
  });

  test("a lock is not renewed, and the release of one that expired rejects", async () => {
    const name = newName();
    const lock = await new Redlock([client], { retryCount: 0 }).acquire([name], 200);
    await sleep(300);
    expect(await client.exists(name)).toBe(0);
    await expect(lock.release()).rejects.toMatchObject({ name: "ExecutionError" });
  });
});

describe("redis-semaphore", () => {
  test("tryAcquire waits", async () => {
    const name = newName();
    await taken(`mutex:${name}`, 20_000);
    const asked = performance.now();
    expect(await new Mutex(client, name, { acquireTimeout: 500 }).tryAcquire()).toBe(false);
    expect(performance.now() - asked).toBeGreaterThan(450);
  });

  test("isAcquired stays true when the lock is gone", async () => {
    const name = newName();
    const mutex = new Mutex(client, name, { onLockLost: () => {} });
    await mutex.acquire();
    await client.del(`mutex:${name}`);
    expect(mutex.isAcquired).toBe(true);
    await mutex.release();
  });

  test("without onLockLost a loss ends the process", async () => {
    const program = `
      import semaphore from "${addressOf("redis-semaphore")}";
      import { Redis } from "${pathToFileURL(require.resolve(join(INSTALLED, "ioredis"))).href}";
      const client = new Redis("${url}");
      const name = "${newName()}";
      await new semaphore.Mutex(client, name, { lockTimeout: 500 }).acquire();
      await client.del("mutex:" + name);
      setInterval(() => {}, 1_000);`;
    const ended = promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], {
      timeout: 20_000,
    });
    await expect(ended).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("LostLockError") });
  });
});

describe("verrou", () => {
  const verrou = new Verrou({
    default: "redis",
    stores: { redis: { driver: redisStore({ connection: client }) } },
  });

  test("a lock is not renewed: a second one is in while the first one works, which hears of it at the end", async () => {
    const name = newName();
    const seen: string[] = [];
    const first = verrou.createLock(name, 200).run(async () => {
      await sleep(600);
      seen.push("first is done");
    });
    await sleep(300);
    expect(await verrou.createLock(name, "10s").runImmediately(() => seen.push("second is in"))).toEqual([
      true,
      1,
    ]);
    await expect(first).rejects.toMatchObject({ code: "E_LOCK_NOT_OWNED" });
    expect(seen).toEqual(["second is in", "first is done"]);
  });

  test("a lock that is taken is a pair with false", async () => {
    const name = newName();
    await taken(name, 20_000);
    const lock = verrou.createLock(name);
    expect(await lock.runImmediately(() => "in")).toEqual([false, null]);
    expect(await lock.acquire({ retry: { attempts: 2, delay: 10 } })).toBe(false);
    expect(await lock.acquireImmediately()).toBe(false);
  });
});
