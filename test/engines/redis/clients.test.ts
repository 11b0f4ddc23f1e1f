import { Cluster, Redis } from "ioredis";
import { createLocks, type Locks } from "locktender";
import { redis } from "locktender/redis";
import { createClient, createCluster } from "redis";
import { describe, expect, onTestFinished, test } from "vitest";
import { shared } from "../../servers/shared.js";
import { idle, LIBRARIES, open, proxyTo, queued } from "./tools.js";

const PREFIX = `clients-${process.pid}`;
const single = (await shared("redis")).url;
const clusterHosts = (await shared("redis-cluster")).url.replace("redis+cluster://", "").split(",");

/** Clients as their users make them: ready to use, and theirs. */
const BROUGHT = {
  "Redis of ioredis": async () => {
    const client = new Redis(single);
    return { client, answers: () => client.ping(), close: () => client.disconnect() };
  },
  "Cluster of ioredis": async () => {
    const client = new Cluster(clusterHosts.map((host) => `redis://${host}`));
    return {
      client,
      answers: () => client.set(`${PREFIX}:own`, "1", "EX", 9),
      close: () => client.disconnect(),
    };
  },
  "createClient of node-redis": async () => {
    const client = createClient({ url: single });
    await client.connect();
    return { client, answers: () => client.ping(), close: () => client.destroy() };
  },
  "createCluster of node-redis": async () => {
    const client = createCluster({ rootNodes: clusterHosts.map((host) => ({ url: `redis://${host}` })) });
    await client.connect();
    return {
      client,
      answers: () => client.set(`${PREFIX}:own`, "1", { EX: 9 }),
      close: () => client.destroy(),
    };
  },
};

function own(client: Redis, prefix = PREFIX): Locks {
  const locks = createLocks(redis({ client, prefix }), { ttl: "60s" });
  onTestFinished(async () => {
    await locks.close({ drain: 0, abort: 0 });
    client.disconnect();
  });
  return locks;
}

describe("a client that the caller brings", () => {
  test.each(Object.entries(BROUGHT))("%s locks and waits, and is not closed by us", async (kind, make) => {
    const { client, answers, close } = await make();
    const locks = createLocks(redis({ client, prefix: PREFIX }), { ttl: "60s" });
    const lease = await locks.mutex(kind).acquire();
    const next = locks.mutex(kind).acquire();
    await queued(locks, kind, 1);
    await lease.release();
    expect((await next).held).toBe(true);
    await locks.close();
    expect(["PONG", "OK"]).toContain(await answers());
    close();
  });

  test.each(["app:", "app[1]*:", "{app}:", "a\\b?"])(
    "a keyPrefix of %j works for locks, notifications and list",
    async (keyPrefix) => {
      const locks = own(new Redis(single, { keyPrefix }), `${PREFIX}-kp`);
      const name = "order:{7}";
      const lease = await locks.mutex(name).acquire();
      const next = locks.mutex(name).acquire({ wait: "5s" });
      await queued(locks, name, 1);
      // With a ttl of a minute neither a heartbeat nor a poll is due so soon: it is the notification that tells.
      await lease.release();
      const got = await next;
      const found: string[] = [];
      for await (const resource of locks.list({ prefix: "order" })) found.push(resource.name);
      expect(found).toEqual([name]);
      const victims = await locks.forceRelease(name, { reason: "to see that it is told" });
      expect(victims).toHaveLength(1);
      await expect.poll(() => got.signal.aborted).toBe(true);
      // Under another prefix it is another lock.
      const plain = open({ url: single, prefix: `${PREFIX}-kp` });
      expect((await plain.inspect(name)).holders).toEqual([]);
    },
  );

  test("both libraries meet at the same lock, exclude each other and are served in order", async () => {
    const [first, second] = LIBRARIES.map((library) => open({ url: single, library, prefix: PREFIX }));
    if (first === undefined || second === undefined) throw new Error("two libraries are needed");
    const holder = await first.mutex("both").acquire();
    expect(await second.mutex("both").tryAcquire()).toBeNull();
    const order: number[] = [];
    const runs: Promise<void>[] = [];
    for (let index = 0; index < 8; index++) {
      const locks = index % 2 === 0 ? first : second;
      runs.push(locks.mutex("both", { fair: true }).run(() => void order.push(index)));
      await queued(first, "both", index + 1);
    }
    await holder.release();
    await Promise.all(runs);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });
});

describe("an ioredis client that sends again and queues while offline, as ioredis does by default", () => {
  async function proxied() {
    const { proxy } = await proxyTo(single);
    const client = new Redis(proxy.port, proxy.host, { maxRetriesPerRequest: null, retryStrategy: () => 20 });
    client.on("error", () => {}); // the commands tell
    return { proxy, client, locks: own(client), watcher: open({ url: single, prefix: PREFIX }) };
  }

  test("a claim that was executed twice is one claim, with one token, and one release frees it", async () => {
    const { proxy, locks, watcher } = await proxied();
    await locks.mutex("warm").run(() => undefined);
    const cut = proxy.cutBeforeReply((data) => data.includes("{twice}"));
    const asked = locks.mutex("twice").acquire();
    await cut;
    const [claimed] = (await watcher.inspect("twice")).holders;
    const lease = await asked;
    expect(lease.token).toBe(claimed?.token);
    expect((await watcher.inspect("twice")).holders).toHaveLength(1);
    expect(await lease.release()).toBe(true);
    await idle(watcher, "twice");
  });

  test("a release that was executed twice frees the lock once, and not from its next holder", async () => {
    const { proxy, locks, watcher } = await proxied();
    const lease = await locks.mutex("freed").acquire();
    const next = watcher.mutex("freed").acquire();
    await queued(watcher, "freed", 1);
    const cut = proxy.cutBeforeReply((data) => data.includes("{freed}"));
    const released = lease.release();
    await cut;
    const successor = await next;
    await released;
    expect((await watcher.inspect("freed")).holders.map(({ token }) => token)).toEqual([successor.token]);
  });

  test("a claim that left the offline queue long after its caller gave up leaves nothing behind", async () => {
    const { proxy, client, locks, watcher } = await proxied();
    await locks.mutex("warm").run(() => undefined);
    proxy.refuse();
    await expect.poll(() => client.status).not.toBe("ready");
    const controller = new AbortController();
    const asked = locks.mutex("offline").acquire({ signal: controller.signal });
    controller.abort(new Error("gave up"));
    await expect(asked).rejects.toThrow("gave up");
    proxy.heal();
    await expect.poll(() => client.status, { timeout: 5_000 }).toBe("ready");
    await client.ping();
    await idle(watcher, "offline");
    expect(await watcher.mutex("offline").tryAcquire()).not.toBeNull();
  });
});
