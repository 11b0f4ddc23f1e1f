import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { startFaultProxy } from "#lib/testing/faults.js";
import { makeWrongClock } from "../../servers/clock.js";
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

/** Locks go on when another server takes over. */
export function failoverPromises(database: TestedDatabase): void {
  const { backend, open } = toolsFor(database);

  let [old, next]: Victim[] = [];
  beforeAll(async () => {
    [old, next] = await Promise.all([database.start(), database.start()]);
  });
  afterAll(() => Promise.all([old?.stop(), next?.stop()]));

  /** Two servers, of which only the first can write; and back again. */
  const servers = async () => {
    if (old === undefined || next === undefined) throw new Error("the servers have not been started");
    const [first, second] = [old, next];
    const swap = async (writes: Victim, reads: Victim) => {
      await database.setReadOnly(reads.url, true);
      await database.setReadOnly(writes.url, false);
    };
    await swap(first, second);
    return { first, second, swap };
  };

  describe("a planned switchover: the old primary becomes read-only, the address moves, sessions stay open", () => {
    /** An address that can be moved to the second server. Sessions that are open stay where they are. */
    const movingAddress = async () => {
      const { first, second, swap } = await servers();
      const target = hostOf(first.url);
      const proxy = await startFaultProxy({ target });
      onTestFinished(() => proxy.close());
      const move = async () => {
        Object.assign(target, hostOf(second.url));
        await swap(second, first);
      };
      return { url: at(first.url, [proxy]), move };
    };

    test("a holder is told, a waiter is let in by the new primary, and the next request works at once", async () => {
      const { url, move } = await movingAddress();
      const prefix = newPrefix();
      const [one, other] = [0, 1].map(() => open({ url, prefix }, { ttl: "3s", wait: "20s" }));
      if (one === undefined || other === undefined) throw new Error("there are two");
      const lease = await one.mutex("a").acquire();
      const told = new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      const waiting = other.mutex("a").acquire();
      await queued(one, "a", 1);
      await move();
      // The new one knows nothing of these locks, not even the schema.
      expect(await one.mutex("b").tryRun(() => "works")).toMatchObject({ ran: true });
      await told;
      const got = await waiting;
      expect(got.token).toBeGreaterThan(lease.token);
      expect(await got.release()).toBe(true);
    });

    test("a process that only waits does not stay with the old primary", async () => {
      const { url, move } = await movingAddress();
      const prefix = newPrefix();
      const holder = open({ url, prefix }, { ttl: "60s" });
      await holder.mutex("a").acquire();
      // It polls, and renews its place after 20 s only.
      const waiter = open({ url, prefix, ...database.polling }, { ttl: "60s" });
      const waiting = waiter.mutex("a").acquire({ wait: "15s" });
      await queued(holder, "a", 1);
      await move();
      // The new primary does not know of the holder.
      expect((await waiting).held).toBe(true);
    });

    test("a pool of the caller's goes on, too", async () => {
      const { url, move } = await movingAddress();
      const one = database.pool(url, 3).backend({ prefix: newPrefix() });
      await Promise.all(["a", "b", "c"].map((name) => one.claim(request(name))));
      await move();
      expect((await one.claim(request("d"))).state).toBe("granted");
    });

    test("so does one with many connections that lie idle", async () => {
      const { url, move } = await movingAddress();
      const pool = database.pool(url, 50);
      const all = await Promise.all(Array.from({ length: 50 }, () => pool.connect()));
      const one = pool.backend({ prefix: newPrefix() });
      for (const connection of all) connection.giveBack();
      await one.claim(request("a"));
      await move();
      expect((await one.claim(request("b"))).state).toBe("granted");
    });

    test("a waiter of the new primary is notified there", async () => {
      const { url, move } = await movingAddress();
      const prefix = newPrefix();
      const [holder, waiter] = [open({ url, prefix }), open({ url, prefix }, { ttl: "30s" })];
      // Both have waited, so both know how to be notified.
      for (const [one, two] of [
        [holder, waiter],
        [waiter, holder],
      ] as const) {
        const lease = await one.mutex("a").acquire();
        const waiting = two.mutex("a").acquire();
        await queued(one, "a", 1);
        await lease.release();
        await (await waiting).release();
      }
      await move();
      const lease = await holder.mutex("a").acquire();
      const waiting = waiter.mutex("a").acquire();
      await queued(holder, "a", 1);
      await lease.release();
      const releasedAt = performance.now();
      await waiting;
      // It looks by itself after a third of its ttl.
      expect(performance.now() - releasedAt).toBeLessThan(5_000);
    });
  });

  test("a clock that is 10 s behind takes no token back, though the last tickets are lost", async () => {
    const clock = await makeWrongClock();
    onTestFinished(() => clock.remove());
    const server = await database.start(clock.env);
    onTestFinished(() => server.stop());
    const prefix = newPrefix();
    const [one, other] = [0, 1].map(() => backend({ url: server.url, prefix }));
    const ticketOf = async (backend: Backend | undefined, name: string): Promise<bigint> => {
      const claim = request(name);
      const answer = await backend?.claim(claim);
      await backend?.release(claim);
      if (answer?.state !== "granted") throw new Error("the name is free");
      return answer.ticket;
    };
    await ticketOf(other, "elsewhere");
    const before = await ticketOf(one, "a");
    await database.ask(server.url, `DELETE FROM ${database.sql.table(prefix, "resources")}`);
    await clock.set(-10_000);
    // The floor may lag by this much.
    await sleep(50);
    // This process has never asked for that name.
    const after = await ticketOf(other, "a");
    expect(after).toBeGreaterThan(before);
    expect(await ticketOf(one, "a")).toBeGreaterThan(after);
  });

  test("of several hosts the one that can write is used, also when that changes", async () => {
    const { first, second, swap } = await servers();
    const url = at(first.url, [second.url, first.url].map(hostOf));
    const one = backend({ url: `${url}?target_session_attrs=read-write`, prefix: newPrefix() });
    for (const [writes, reads] of [
      [first, second],
      [second, first],
      [first, second],
    ] as const) {
      await swap(writes, reads);
      const claim = request("a");
      await eventually("it is granted", 5_000, () => one.claim(claim).then(isGranted));
      expect(await one.release(claim)).toBe(true);
    }
  });

  test("hosts that are passed over leave no connection behind", async () => {
    const { first, second } = await servers();
    const proxy = await startFaultProxy({ target: hostOf(first.url) });
    onTestFinished(() => proxy.close());
    const locks = open({ url: at(first.url, [hostOf(second.url), proxy]), connections: 2 });
    await locks.mutex("a").run(() => undefined);
    // Those of the pool, and one that listens.
    expect(proxy.connections).toBeLessThanOrEqual(2 + 1);
    await locks.close();
    await eventually("they are closed", 5_000, () => proxy.connections === 0);
  });

  test("a host that is down is passed over", async () => {
    const { first } = await servers();
    const proxy = await startFaultProxy({ target: hostOf(first.url) });
    await proxy.close();
    const url = at(first.url, [proxy, hostOf(first.url)]);
    expect((await backend({ url }).claim(request("a"))).state).toBe("granted");
  });

  test("while no host can write, few connections are made", async () => {
    const { first } = await servers();
    await database.setReadOnly(first.url, true);
    const proxy = await startFaultProxy({ target: hostOf(first.url) });
    onTestFinished(() => proxy.close());
    const url = at(first.url, [proxy]);
    const made = proxy.accepted;
    await expect(backend({ url, timeout: "2s" }).claim(request("a"))).rejects.toThrow(/read-only/);
    const pool = database.pool(url, 10).backend({ prefix: newPrefix(), timeout: "2s" });
    await expect(pool.claim(request("a"))).rejects.toThrow(/read-only/);
    expect(proxy.accepted - made).toBeLessThan(60);
  });

  test("where no host can write, the error says so, and it is worth another try", async () => {
    const { first, second } = await servers();
    await database.setReadOnly(first.url, true);
    const url = at(first.url, [first.url, second.url].map(hostOf));
    await expect(backend({ url, timeout: "500ms" }).claim(request("a"))).rejects.toMatchObject({
      code: "backend",
      retryable: true,
      message: expect.stringMatching(/read-only.*primary/),
    });
  });
}

type Host = { readonly host: string; readonly port: number };

function hostOf(url: string): Host {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

/** The same URL with these hosts. */
function at(url: string, hosts: readonly Host[]): string {
  const { host } = new URL(url);
  return url.replace(host, hosts.map(({ host, port }) => `${host}:${port}`).join(","));
}
