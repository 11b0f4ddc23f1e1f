import { readFileSync } from "node:fs";
import { createLocks, type Locks } from "locktender";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import type * as RedisModule from "#lib/backends/redis/index.js";
import { shared } from "../../servers/shared.js";
import { LOWEST_VERSIONS } from "../../support/lowest-versions.js";
import { besideLibraries } from "../../support/other-libraries.js";
import { proxyTo, queued } from "./tools.js";

/** The lowest version of node-redis that is promised; all other tests run on the newest. */
const LOWEST = "redis-lowest";
const PREFIX = `lowest-${process.pid}`;
const servers = { single: "redis", sentinel: "redis-sentinel", cluster: "redis-cluster" } as const;

const beside = await besideLibraries({ redis: LOWEST });
afterAll(() => beside.remove());
const { redis } = (await import(beside.url("backends/redis/index.js"))) as typeof RedisModule;

function open(url: string): Locks {
  return createLocks(redis({ url, prefix: PREFIX }), { ttl: "10s" });
}

test("it is the version that is promised", () => {
  const { devDependencies } = JSON.parse(
    readFileSync(new URL("../../../package.json", import.meta.url), "utf8"),
  ) as Record<string, Readonly<Record<string, string>>>;
  expect(devDependencies?.[LOWEST]).toBe(`npm:redis@${LOWEST_VERSIONS.redis}`);
});

describe.each(Object.entries(servers))("%s by the lowest version of node-redis", (kind, name) => {
  test("locks, waits without polling, lists, and closes without an error, also twice", async () => {
    const locks = open((await shared(name)).url);
    const lease = await locks.mutex(kind).acquire();
    const next = locks.mutex(kind).acquire({ wait: "5s" });
    await queued(locks, kind, 1);
    await lease.release();
    expect((await next).held).toBe(true);
    const found: string[] = [];
    for await (const resource of locks.list()) found.push(resource.name);
    expect(found).toContain(kind);
    await locks.close();
    await locks.close();
  });
});

test("a connection that the server dropped is made anew, the lease is kept, and close() works meanwhile", async () => {
  const { proxy, url } = await proxyTo((await shared("redis")).url);
  const locks = open(url);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const lease = await locks.mutex("dropped").acquire();
  proxy.refuse();
  await expect(locks.mutex("other").acquire({ wait: 0 })).rejects.toMatchObject({ code: "backend" });
  const closing = open(url);
  await expect(closing.mutex("other").acquire({ wait: 0 })).rejects.toMatchObject({ code: "backend" });
  await closing.close();
  proxy.heal();
  await locks.mutex("other").run({ wait: "5s" }, () => undefined);
  expect(lease.held).toBe(true);
  expect(await lease.release()).toBe(true);
});
