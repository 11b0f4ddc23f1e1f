import { join } from "node:path";
import { Cluster, Redis } from "ioredis";
import { connect, createLocks } from "locktender";
import { redlock } from "locktender/redlock";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { run } from "../../core/program.js";
import { blocksOf } from "../../examples/blocks.js";
import { makeCertificate } from "../../servers/certificates.js";
import { CERTIFICATE_FILE, type RedisServers, startRedisServers } from "../redis/server.js";
import { Quorum, sleep, urlOf } from "./tools.js";

const LIBRARIES = ["ioredis", "redis"] as const;
const servers = await startRedisServers(3);
const { ports } = servers;
afterAll(() => servers.stop());

describe("clients that the caller brings, one for each server", () => {
  const BROUGHT = {
    ioredis: () =>
      Promise.all(
        ports.map(async (port) => {
          const client = new Redis(port, "127.0.0.1");
          return { client, ping: () => client.ping(), end: () => client.disconnect() };
        }),
      ),
    redis: () =>
      Promise.all(
        ports.map(async (port) => {
          const client = createClient({ url: `redis://127.0.0.1:${port}` });
          await client.connect();
          return { client, ping: () => client.ping(), end: () => client.destroy() };
        }),
      ),
  };

  test.each(LIBRARIES)("they lock and are notified, and are not closed by us, by %s", async (library) => {
    const brought = await BROUGHT[library]();
    onTestFinished(() => brought.forEach(({ end }) => void end()));
    const clients = brought.map(({ client }) => client);
    const open = () => createLocks(redlock({ clients, prefix: `brought-${library}`, fresh: true }));
    const [here, there] = [open(), open()];
    const lease = await here.mutex("a").acquire();
    const waiting = there.mutex("a").acquire();
    await sleep(100);
    expect((await there.inspect("a")).holders).toHaveLength(1);
    await lease.release();
    expect((await waiting).token).toBeGreaterThan(lease.token);
    await Promise.all([here.close(), there.close()]);
    expect(await Promise.all(brought.map(({ ping }) => ping()))).toEqual(["PONG", "PONG", "PONG"]);
  });

  test.each(LIBRARIES)(
    "a vote that no caller waits for any more is not asked for, by %s",
    async (library) => {
      const brought = await BROUGHT[library]();
      onTestFinished(() => brought.forEach(({ end }) => void end()));
      const quorum = await Quorum.on(ports, { timeout: 100 });
      const clients = brought.map(({ client }) => client);
      const locks = createLocks(redlock({ clients, prefix: quorum.prefix, timeout: 100 }), { ttl: "20s" });
      await locks.mutex("a").run(() => undefined);
      servers.nodes[2]?.process.pause();
      try {
        // After a question that is not answered it is greeted first; and then that is not answered, either.
        for (let round = 0; round < 2; round++) {
          await locks.mutex("a").run(() => undefined);
          await sleep(300);
        }
      } finally {
        servers.nodes[2]?.process.resume();
      }
      // What is sent on its connection because of the greeting is answered before the last of these.
      for (let round = 0; round < 5; round++) await brought[2]?.ping();
      expect(await quorum.claims("a")).toEqual([0, 0, 0]);
      await locks.close();
    },
  );

  test("they can be of both libraries at once, and must not be one client twice", async () => {
    const brought = [...(await BROUGHT.ioredis()), ...(await BROUGHT.redis())];
    onTestFinished(() => brought.forEach(({ end }) => void end()));
    const [first, second, , , , third] = brought;
    if (first === undefined || second === undefined || third === undefined) return expect.unreachable();
    const clients = [first.client, second.client, third.client];
    const locks = createLocks(redlock({ clients, prefix: "mixed", fresh: true }));
    expect(await locks.mutex("a").run(({ held }) => held)).toBe(true);
    await locks.close();
    expect(() => redlock({ clients: [first.client, first.client, second.client] })).toThrow("given twice");
    const cluster = new Cluster([{ host: "127.0.0.1", port: ports[0] ?? 0 }], { lazyConnect: true });
    expect(() => redlock({ clients: [first.client, cluster, second.client] })).toThrow("independent servers");
  });
});

test("user, password and database of a URL are those of every server", async () => {
  const admins = ports.map((port) => new Redis(port, "127.0.0.1"));
  onTestFinished(() => admins.forEach((admin) => void admin.disconnect()));
  for (const admin of admins)
    await admin.call("ACL", "SETUSER", "till", "on", ">p@ss/word", "~*", "&*", "+@all");
  const url = `${urlOf(ports).replace("://", "://till:p%40ss%2Fword@")}/2`;
  const backend = redlock({ url, prefix: "second", fresh: true });
  const locks = createLocks(backend);
  const lease = await locks.mutex("a").acquire();
  for (const admin of admins) {
    await admin.select(2);
    expect(await admin.keys("second:*")).toContain("second:quorum:{a}");
  }
  await lease.release();
  await locks.close();
  await expect(connect(url.replace("word@", "other@"))).rejects.toMatchObject({ code: "backend" });
});

describe("the rights in docs/engines/redlock.md", () => {
  const rights = (
    blocksOf("docs/engines/redlock.md").find(({ text }) => text.startsWith("ACL SETUSER"))?.text ?? ""
  )
    .trim()
    .split(/\s+/)
    .slice(3);
  /** What the page says that one can do without, at a price. */
  const dispensable = ["+subscribe", "+publish"];
  const url = urlOf(ports).replace("://", "://locktender:a-long-password@");

  async function allow(given: readonly string[]): Promise<void> {
    for (const port of ports) {
      const admin = new Redis(port, "127.0.0.1");
      await admin.call("ACL", "SETUSER", "locktender", "reset", ...given);
      await admin.script("FLUSH");
      admin.disconnect();
    }
  }

  let uses = 0;

  async function useEverything(library: "ioredis" | "redis"): Promise<void> {
    const prefix = `locktender:${++uses}`;
    const open = () => createLocks(redlock({ url, library, prefix, fresh: true }), { ttl: "2s", wait: "3s" });
    const [here, there] = [open(), open()];
    const backend = redlock({ url, library, prefix });
    try {
      const first = await here.mutex("a").acquire();
      const waiting = there.mutex("a").acquire();
      waiting.catch(() => {}); // what breaks first is told; this one is awaited below
      await sleep(400);
      await first.update({ note: "still" });
      expect(first.held).toBe(true);
      expect(await first.release()).toBe(true);
      const second = await waiting;
      expect(await here.forceRelease("a", { reason: "a test" })).toHaveLength(1);
      await expect.poll(() => second.signal.aborted).toBe(true);
      expect(second.signal.reason.loss).toBe("forced");
      const unknown = { name: "a", id: "nobody", ticket: 1n, ttlMs: 1_000 };
      expect(await backend.renew([unknown])).toEqual([{ state: "gone", loss: "taken" }]);
      await here.mutex("a").run(async () => {
        const names: string[] = [];
        for await (const { name } of there.list({ prefix: "a" })) names.push(name);
        expect(names).toEqual(["a"]);
      });
    } finally {
      await Promise.all([here.close({ drain: 0, abort: 0 }), there.close({ drain: 0, abort: 0 })]);
      await backend.close();
    }
  }

  test.each(LIBRARIES)("they are enough for everything, by %s", async (library) => {
    await allow(rights);
    await useEverything(library);
  });

  test("none of them is too much, but for those that the page names", async () => {
    const commands = rights.filter((right) => right.startsWith("+"));
    expect(commands.length).toBeGreaterThan(10);
    for (const command of commands) {
      await allow(rights.filter((right) => right !== command));
      const outcome = await useEverything("ioredis").catch((error: unknown) => error);
      if (dispensable.includes(command)) expect(outcome, `without ${command}`).toBeUndefined();
      else expect(outcome, `without ${command}`).toBeInstanceOf(Error);
    }
  });
});

describe("redlocks", () => {
  let caFile: string;
  let secured: RedisServers;
  beforeAll(async () => {
    secured = await startRedisServers(3, { tls: await makeCertificate() });
    caFile = join(secured.nodes[0]?.process.folder ?? "", CERTIFICATE_FILE);
  });
  afterAll(() => secured.stop());

  const program = (library: string, trusting: boolean) =>
    run(
      `const url = ${JSON.stringify(urlOf(secured.ports).replace("redlock:", "redlocks:"))};
       const locks = createLocks(redlock({ url, library: ${JSON.stringify(library)}, fresh: true, prefix: ${JSON.stringify(library)} }));
       const asked = locks.mutex("a").run(({ held }) => held);
       await asked.then(console.log, (error) => console.log(error.code, error.retryable, error.message));
       await locks.close();`,
      { env: trusting ? { NODE_EXTRA_CA_CERTS: caFile } : {} },
    );

  test.each(LIBRARIES)(
    "speaks TLS to every server, and connects to no server by a certificate that is not trusted, by %s",
    async (library) => {
      const [trusting, other] = await Promise.all([program(library, true), program(library, false)]);
      expect(trusting).toMatchObject({ code: 0, out: "true\n" });
      expect(other.out).toMatch(/^backend false .*certificate/);
    },
  );
});
