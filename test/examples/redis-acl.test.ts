import { Redis } from "ioredis";
import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type RedisSingle, startRedisSingle } from "../engines/redis/server.js";
import { shared } from "../servers/shared.js";
import { blocksOf } from "./blocks.js";

const USER = "locktender";
const PASSWORD = "a-long-password";
const PAGE = "docs/engines/redis.md";
/** What the page says that one can do without, at a price. */
const DISPENSABLE = ["+info", "+subscribe", "+publish"];
const TTL_MS = 2_000;
/** After this, a holder and a waiter have been renewed. */
const RENEWED_MS = TTL_MS / 3 + 50;

/** The rights that the page tells people to give, as arguments of ACL SETUSER. */
const RIGHTS = (blocksOf(PAGE).find(({ text }) => text.startsWith("ACL SETUSER"))?.text ?? "")
  .trim()
  .split(/\s+/)
  .slice(3);

async function allow(admin: Redis, rights: readonly string[]): Promise<void> {
  await admin.call("ACL", "SETUSER", USER, "reset", ...rights);
  // So that each script has to be sent anew, as after a restart.
  await admin.script("FLUSH");
}

const withUser = (url: string): string => url.replace("://", `://${USER}:${PASSWORD}@`);

/** Each use has a name of its own: a script that may not finish leaves its lock half done. */
let uses = 0;

/** Everything that a lock can do: alone, with a waiter, forced, tried, listed and closed. */
async function useEverything(
  url: string,
  library: "ioredis" | "redis",
  { replicas = 0, togetherMs = RENEWED_MS } = {},
): Promise<void> {
  const open = () => createLocks(redis({ url, library, replicas }), { ttl: TTL_MS, wait: "2s" });
  const [here, there] = [open(), open()];
  const name = `acl:${++uses}`;
  try {
    // A busy machine may take longer to find a master than the ttl of the first lease.
    await Promise.all([here.inspect(name), there.inspect(name)]);
    const first = await here.mutex(name).acquire({ note: "first" });
    const waiting = there.mutex(name).acquire();
    waiting.catch(() => {}); // what breaks first is told; this one is awaited below
    await expect.poll(async () => (await there.inspect(name)).waiters.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, togetherMs));
    expect(await here.mutex(name).tryAcquire()).toBeNull();
    await first.update({ note: "still" });
    expect((await there.inspect(name)).waiters).toHaveLength(1);
    expect(await first.release()).toBe(true);
    const second = await waiting;
    expect(await here.forceRelease(name, { reason: "a test" })).toHaveLength(1);
    await expect.poll(() => second.signal.aborted).toBe(true);
    await here.mutex(name).run({ minHold: "20ms", renew: false }, () => undefined);
    await here.mutex(name).run(async () => {
      const names: string[] = [];
      for await (const record of there.list({ prefix: "acl:" })) names.push(record.name);
      expect(names).toContain(name);
    });
  } finally {
    await Promise.all([here.close({ drain: 0, abort: 0 }), there.close({ drain: 0, abort: 0 })]);
  }
}

describe(`the rights in ${PAGE}`, () => {
  let server: RedisSingle;
  let admin: Redis;

  beforeAll(async () => {
    server = await startRedisSingle();
    admin = new Redis(server.url);
  });

  afterAll(async () => {
    admin.disconnect();
    await server.stop();
  });

  test.each(["ioredis", "redis"] as const)("they are enough for everything, by %s", async (library) => {
    await allow(admin, RIGHTS);
    await useEverything(withUser(server.url), library);
  });

  test("none of them is too much, but for those that the page names", async () => {
    const commands = RIGHTS.filter((right) => right.startsWith("+") && !DISPENSABLE.includes(right));
    expect(commands.length).toBeGreaterThan(10);
    for (const command of commands) {
      await allow(
        admin,
        RIGHTS.filter((right) => right !== command),
      );
      const outcome = await useEverything(withUser(server.url), "ioredis", { togetherMs: 100 }).catch(
        (error: unknown) => error,
      );
      expect(outcome, `without ${command}`).toBeInstanceOf(Error);
    }
  });

  test.each(DISPENSABLE)("without %s everything still works", async (right) => {
    await allow(
      admin,
      RIGHTS.filter((other) => other !== right),
    );
    const locks = createLocks(redis({ url: withUser(server.url) }), { ttl: "300ms" });
    const first = await locks.mutex("acl:fewer").acquire();
    const waiting = locks.mutex("acl:fewer").acquire();
    await new Promise((resolve) => setTimeout(resolve, 50));
    await first.release();
    expect((await waiting).held).toBe(true);
    await locks.close();
  });

  test("they allow neither other keys nor other commands", async () => {
    await allow(admin, RIGHTS);
    const user = new Redis(withUser(server.url));
    await expect(user.get("somebody-else")).rejects.toThrow("NOPERM");
    await expect(user.flushall()).rejects.toThrow("NOPERM");
    await expect(user.config("GET", "*")).rejects.toThrow("NOPERM");
    await expect(user.subscribe("somebody-else")).rejects.toThrow("NOPERM");
    user.disconnect();
  });
});

describe(`what ${PAGE} adds to them`, () => {
  const TOPOLOGIES = [
    ["a Cluster", "redis-cluster", ["+cluster|slots", "+cluster|info"], 0],
    ["replicas behind Sentinel", "redis-sentinel", ["+wait", "+pttl"], 1],
  ] as const;
  const LIBRARIES = ["ioredis", "redis"] as const;

  test.each(TOPOLOGIES.flatMap((topology) => LIBRARIES.map((library) => [...topology, library] as const)))(
    "it is enough for %s (%s, with %j for %i), by %s",
    async (_, key, extra, replicas, library) => {
      const { url, nodes } = await shared(key);
      const admins = nodes.map(({ port }) => new Redis(port));
      try {
        for (const admin of admins) await admin.call("ACL", "SETUSER", USER, "reset", ...RIGHTS, ...extra);
        // Servers that were named by the environment are not ours to add users to.
        if (nodes.length > 0) await useEverything(withUser(url), library, { replicas });
      } finally {
        for (const admin of admins) {
          await admin.call("ACL", "DELUSER", USER);
          admin.disconnect();
        }
      }
    },
  );
});
