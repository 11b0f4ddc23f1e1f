import { Redis } from "ioredis";
import { connect, createLocks, type Locks } from "locktender";
import { redis } from "locktender/redis";
import { createClient, createCluster, createSentinel } from "redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { askRedis, type RedisSingle, startRedisSingle } from "./server.js";
import { LIBRARIES } from "./tools.js";

/** "Promptly", on a busy machine: far below the 15 s for which a wait goes through an outage. */
const PROMPTLY_MS = 5_000;

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

/** The error of the first lock, and how long it took. */
async function failure(locks: Locks): Promise<{ error: unknown; tookMs: number }> {
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const startedAt = performance.now();
  const error = await locks
    .mutex("a")
    .acquire()
    .then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
  return { error, tookMs: performance.now() - startedAt };
}

describe("a client that is not connected, and does not try to be", () => {
  const socket = () => ({ host: "127.0.0.1", port: server.node.port });
  const sentinelRootNodes = [{ host: "127.0.0.1", port: 1 }];
  const NEVER_CONNECTED = {
    createClient: () => createClient({ socket: socket() }),
    createCluster: () => createCluster({ rootNodes: [{ socket: socket() }] }),
    createSentinel: () => createSentinel({ name: "main", sentinelRootNodes }),
    "a closed ioredis": () => {
      const client = new Redis(server.node.port, { lazyConnect: true });
      client.disconnect();
      return client;
    },
  };

  test.each(Object.entries(NEVER_CONNECTED))("%s: the error says so, promptly", async (_, make) => {
    const { error, tookMs } = await failure(createLocks(redis({ client: make() as never })));
    expect(error).toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(/connect\(\) was never called.*await client\.connect\(\)/),
    });
    expect(tookMs).toBeLessThan(PROMPTLY_MS);
  });

  test("works as soon as it is connected", async () => {
    const client = createClient({ socket: socket() });
    onTestFinished(() => client.destroy());
    const locks = createLocks(redis({ client }));
    expect((await failure(locks)).error).toBeDefined();
    await client.connect();
    expect(await locks.mutex("a").run((lease) => lease.held)).toBe(true);
  });
});

describe.each(LIBRARIES)("by %s", (library) => {
  test("TLS at a port without it is named, also of a server that wants a password", async () => {
    const guarded = await startRedisSingle();
    onTestFinished(() => guarded.stop());
    await askRedis(guarded.node.port, "CONFIG", "SET", "requirepass", "s3cr3t");
    for (const { node } of [server, guarded]) {
      const url = `rediss://:s3cr3t@127.0.0.1:${node.port}?timeout=500ms`;
      await expect(connect(url, { engine: { library } })).rejects.toMatchObject({
        code: "backend",
        retryable: false,
        message: expect.stringMatching(/answers without TLS at this port\. Write redis:\/\//),
      });
    }
  });

  test("a server that wants a password, and a URL that has none, or a wrong one", async () => {
    const guarded = await startRedisSingle();
    onTestFinished(() => guarded.stop());
    const { port } = guarded.node;
    await askRedis(port, "CONFIG", "SET", "requirepass", "s3cr3t");
    await expect(connect(`redis://127.0.0.1:${port}`, { engine: { library } })).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(/NOAUTH.*The URL has no password\..*redis:\/\/:password@host/),
    });
    await expect(connect(`redis://:wr0ng@127.0.0.1:${port}`, { engine: { library } })).rejects.toMatchObject({
      message: expect.stringMatching(
        /^(?!.*(has no password|wr0ng|s3cr3t)).*Check the user name and the password/,
      ),
    });
  });

  test("a plain server that is taken for a sentinel", async () => {
    const url = `redis+sentinel://127.0.0.1:${server.node.port}/main`;
    await expect(connect(url, { engine: { library } })).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(/This server is no sentinel\..*26379/),
    });
  });

  test("a server that evicts only at a limit of its memory, and has none, is used", async () => {
    const evicting = await startRedisSingle();
    onTestFinished(() => evicting.stop());
    const { port } = evicting.node;
    for (const policy of ["volatile-lru", "allkeys-lru"]) {
      await askRedis(port, "CONFIG", "SET", "maxmemory-policy", policy);
      await askRedis(port, "CONFIG", "SET", "maxmemory", 0);
      await (await connect(evicting.url, { engine: { library } })).close();
      await askRedis(port, "CONFIG", "SET", "maxmemory", "100mb");
      await expect(connect(evicting.url, { engine: { library } })).rejects.toMatchObject({
        code: "unsupported",
        message: expect.stringContaining(
          `maxmemory-policy ${policy} and a limit of its memory, so it may evict locks when that is full`,
        ),
      });
    }
    const accepting = await connect(evicting.url, { engine: { library, eviction: "accept" } });
    expect(accepting.guarantees.caveats.join("\n")).toMatch(/Eviction is accepted/);
    await accepting.close();
    await (await connect(`${evicting.url}?eviction=accept&library=${library}`)).close();
  });
});

test("the advice about eviction is a call that works when it is pasted", async () => {
  const evicting = await startRedisSingle();
  onTestFinished(() => evicting.stop());
  await askRedis(evicting.node.port, "CONFIG", "SET", "maxmemory-policy", "volatile-lru");
  await askRedis(evicting.node.port, "CONFIG", "SET", "maxmemory", "100mb");
  const url = evicting.url;
  const refused = (await connect(url).catch((error: unknown) => error)) as Error;
  const [call = ""] = /connect\(url, \{.*?\}\)/.exec(refused.message) ?? [];
  const locks = (await new Function("connect", "url", `return ${call}`)(connect, url)) as Locks;
  await locks.close();
  const client = new Redis(evicting.node.port);
  onTestFinished(() => client.disconnect());
  const { error } = await failure(createLocks(redis({ client })));
  const [given = ""] = /redis\(\{.*?\}\)/.exec(String(error)) ?? [];
  const backend = new Function("redis", "client", `return ${given}`)(redis, client) as never;
  const brought = createLocks(backend);
  onTestFinished(() => brought.close());
  expect(await brought.mutex("a").run((lease) => lease.held)).toBe(true);
});
