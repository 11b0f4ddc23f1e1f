import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { startFaultProxy } from "#lib/testing/faults.js";
import {
  eventually,
  isGranted,
  newPrefix,
  queued,
  request,
  sleep,
  type TestedDatabase,
  toolsFor,
  type Victim,
} from "./tested-database.js";

/** A server that goes away, falls silent, or cannot write: an error in time, and nothing is granted twice. */
export function faultPromises(database: TestedDatabase): void {
  const { ask, sql } = database;
  const { backend, open, begin } = toolsFor(database);

  let server: Victim;
  beforeAll(async () => {
    server = await database.start();
  });
  afterAll(() => server?.stop());

  describe("the server goes away", () => {
    test("killed and started again, it costs no holder a lease, and a waiter gets in with a greater token", async () => {
      const prefix = newPrefix();
      const holder = open({ url: server.url, prefix }, { ttl: "20s" });
      const lease = await holder.mutex("a").acquire();
      const waiting = open({ url: server.url, prefix }, { ttl: "20s" }).mutex("a").acquire({ wait: "30s" });
      await queued(holder, "a", 1);
      await server.restart();
      expect(lease.held).toBe(true);
      expect(await lease.release()).toBe(true);
      const next = await waiting;
      expect(next.token).toBeGreaterThan(lease.token);
      expect((await holder.inspect("a")).holders).toHaveLength(1);
    });

    test("killed over and over while many work, it never lets two in, and tokens only grow", async () => {
      const prefix = newPrefix();
      const all = Array.from({ length: 3 }, () =>
        open({ url: server.url, prefix }, { ttl: "4s", wait: "40s" }),
      );
      const tokens: bigint[] = [];
      let inside = 0;
      let stop = false;
      const work = all.flatMap((locks) =>
        Array.from({ length: 4 }, async () => {
          while (!stop) {
            await locks.mutex("hot").run(async (lease) => {
              expect(++inside).toBe(1);
              tokens.push(lease.token);
              await sleep(2);
              inside--;
            });
          }
        }),
      );
      const ended = Promise.all(work);
      // A holder from before the server was killed may block the others for one ttl.
      const goesOn = async () => {
        const before = tokens.length;
        await eventually("they go on", 15_000, () => tokens.length >= before + 5);
      };
      for (let round = 0; round < 3; round++) {
        await goesOn();
        await server.restart();
      }
      await goesOn();
      stop = true;
      await ended;
      expect(tokens.every((token, index) => index === 0 || token > (tokens[index - 1] ?? 0n))).toBe(true);
    });

    test("frozen, it is an error in time, and a lease ends before another holder is let in", async () => {
      const prefix = newPrefix();
      const locks = open({ url: server.url, prefix, timeout: "300ms" }, { ttl: "1s" });
      const lease = await locks.mutex("a").acquire();
      const lost = new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      server.freeze();
      try {
        const startedAt = performance.now();
        await expect(locks.mutex("b").tryAcquire()).rejects.toMatchObject({
          code: "backend",
          retryable: true,
        });
        expect(performance.now() - startedAt).toBeLessThan(2_000);
        await lost;
        expect(lease.signal.reason.loss).toBe("expired");
      } finally {
        server.thaw();
      }
      expect((await locks.mutex("a").acquire()).token).toBeGreaterThan(lease.token);
    });

    test("a connection that is ended in mid-transaction grants nothing, and the retry is granted once", async () => {
      const prefix = newPrefix();
      const locks = open({ url: server.url, prefix, timeout: "20s" }, { ttl: "10s" });
      await locks.mutex("a").run(() => undefined);
      const blocker = await begin(server.url);
      await blocker.query(`UPDATE ${sql.table(prefix, "resources")} SET last_ticket = last_ticket + 1`);
      const asked = locks.mutex("a").acquire();
      const stuck = () => ask(server.url, sql.stuck(prefix));
      await eventually("it is stuck", 2_000, async () => (await stuck()).length === 1);
      for (const { pid } of await stuck()) await ask(server.url, sql.kill(pid));
      await blocker.query("ROLLBACK");
      expect((await asked).held).toBe(true);
      expect((await locks.inspect("a")).holders).toHaveLength(1);
    });

    test("an answer that is lost after the commit is asked for again, and nothing is granted twice", async () => {
      const prefix = newPrefix();
      const { hostname, port } = new URL(server.url);
      const proxy = await startFaultProxy({ target: { host: hostname, port: Number(port) } });
      onTestFinished(() => proxy.close());
      const near = server.url.replace(`${hostname}:${port}`, `${proxy.host}:${proxy.port}`);
      const locks = open({ url: near, prefix }, { ttl: "10s" });
      await locks.mutex("warm").run(() => undefined);
      const cut = proxy.cutBeforeReply((data) => data.includes("only-once"));
      const lease = await locks.mutex("only-once").acquire();
      await cut;
      const { holders, waiters } = await locks.inspect("only-once");
      expect([holders.map(({ token }) => token), waiters]).toEqual([[lease.token], []]);
      expect(await lease.release()).toBe(true);
    });
  });

  test("while one process is stuck in making the schema, others get an error, and do not make it beside it", async () => {
    const prefix = newPrefix();
    const maker = await begin(server.url);
    await maker.query(sql.holdMaking(prefix));
    const other = backend({ url: server.url, prefix });
    await expect(other.claim(request("a"))).rejects.toMatchObject({ code: "backend", retryable: true });
    expect(await ask(server.url, sql.traces(prefix))).toEqual([]);
    maker.release();
    await eventually("his lock is gone", 5_000, () => other.claim(request("a")).then(isGranted, () => false));
  });

  describe("a server that cannot write", () => {
    test("one that is read-only, as a replica is, is refused and says so, also while it is in use", async () => {
      const prefix = newPrefix();
      const used = backend({ url: server.url, prefix, connections: 1 });
      const held = request("held");
      await used.claim(held);
      await database.setReadOnly(server.url, true);
      try {
        const refused = { code: "backend", retryable: true, message: expect.stringMatching(/read-only/) };
        const comes = backend({ url: server.url, prefix }).claim(request("b"));
        await expect(comes).rejects.toMatchObject(refused);
        await expect(used.claim(request("b"))).rejects.toMatchObject(refused);
        await expect(used.release(held)).rejects.toMatchObject(refused);
      } finally {
        await database.setReadOnly(server.url, false);
      }
      expect(await backend({ url: server.url, prefix }).release(held)).toBe(true);
    });
  });

  test("the log of the server holds no id of a claim", async () => {
    expect(await server.log()).not.toMatch(/claim-\d+-\d+/);
  });
}
