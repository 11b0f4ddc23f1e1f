import { connect, createServer, type Socket } from "node:net";
import { Duplex } from "node:stream";
import { createLocks } from "locktender";
import { postgres } from "locktender/postgres";
import { startFaultProxy } from "locktender/testing";
import type { PostgresType } from "postgres";
import { describe, expect, onTestFinished, test } from "vitest";
import { askPostgres } from "../engines/postgres/server.js";
import { type CallerOptions, makeSql, opened, SOON, server, sqlAt } from "./postgres-js-tools.js";

describe("whatever the caller has done to its sql", () => {
  test("names are not changed on their way, nor is what comes back", async () => {
    const text = { to: 25, from: [25], serialize: (x: unknown) => String(x).toLowerCase(), parse: String };
    const number = { to: 23, from: [23, 20], serialize: (x: number) => x.toFixed(1), parse: Number };
    const sql = sqlAt(server, {
      types: { text, number } as unknown as Record<string, PostgresType>,
      transform: { row: { from: (row: unknown) => ({ data: row }) } },
    } as CallerOptions);
    const prefix = `postgres_js_${process.pid}_changed`;
    const [one, other] = [
      createLocks(postgres({ sql, prefix })),
      createLocks(postgres({ url: server.url, prefix })),
    ];
    onTestFinished(async () => {
      await Promise.all([one, other].map((locks) => locks.close({ drain: 0, abort: 0 })));
      await sql.end();
    });
    expect(await one.mutex("Orders:42").tryAcquire()).not.toBeNull();
    expect(await other.mutex("Orders:42").tryAcquire()).toBeNull();
    expect(await other.mutex("orders:42").tryAcquire()).not.toBeNull();
  });

  test("a tunnel that is a stream, and no socket, works, and its connections are used again", async () => {
    const made: Duplex[] = [];
    const socket = async () => {
      const inner = connect(server.port, server.host);
      const stream = Duplex.from({ readable: inner, writable: inner });
      made.push(stream);
      return stream;
    };
    const sql = sqlAt(server, { socket } as CallerOptions);
    const locks = createLocks(postgres({ sql, prefix: "tunnel", connections: 2, listen: false }));
    onTestFinished(async () => {
      await locks.close();
      await sql.end();
    });
    for (let round = 0; round < 5; round++) expect(await locks.mutex("a").run(() => round)).toBe(round);
    expect(made.length).toBeLessThanOrEqual(2);
  });

  test("a connection that comes too late is closed, and keeps nothing alive", async () => {
    const late: Socket[] = [];
    const socket = async () => {
      await new Promise((resolve) => setTimeout(resolve, 800));
      const made = connect(server.port, server.host);
      late.push(made);
      return made;
    };
    const sql = sqlAt(server, { socket } as CallerOptions);
    const locks = createLocks(postgres({ sql, prefix: "late", timeout: "300ms", listen: false }));
    for (let asked = 0; asked < 3; asked++) await expect(locks.mutex("a").tryAcquire()).rejects.toThrow();
    await locks.close();
    await expect.poll(() => late.length, SOON).toBeGreaterThan(2);
    await expect.poll(() => late.every(({ destroyed }) => destroyed), SOON).toBe(true);
  });
});

describe("an address that accepts connections and closes them", () => {
  test("it is tried a few times, and the error says what happened", async () => {
    let accepted = 0;
    const closing = createServer((near) => {
      accepted++;
      near.on("error", () => {});
      near.end();
    });
    await new Promise<void>((resolve) => closing.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void closing.close());
    const at = { host: "127.0.0.1", port: (closing.address() as { port: number }).port };
    const { locks } = opened(at);
    await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({
      code: "backend",
      message: expect.stringMatching(/connection was closed.*Is the server running/i),
    });
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(accepted).toBeLessThan(30);
  });
});

test("a connection that is ended while it makes the schema leaves no other one behind", async () => {
  const name = `postgres_js_ended_${process.pid}`;
  // Schemas of one database are made one after the other: those of other tests must not wait for this one.
  await askPostgres(server.url, `CREATE DATABASE ${name}`);
  const sql = sqlAt(server, { database: name, connection: { application_name: name } });
  const ours = `SELECT pid FROM pg_stat_activity WHERE application_name = '${name}'`;
  const blocker = sqlAt(server, { database: name, max: 1 });
  await blocker.unsafe("BEGIN");
  await blocker.unsafe("SELECT pg_advisory_xact_lock(1280005188)");
  const locks = createLocks(postgres({ sql, prefix: `ended_${process.pid}`, timeout: "5s", listen: false }));
  const asked = locks.mutex("a").tryAcquire();
  await expect
    .poll(() => askPostgres(server.url, `${ours} AND wait_event = 'advisory'`), SOON)
    .toHaveLength(1);
  await askPostgres(server.url, `SELECT pg_terminate_backend(pid) FROM (${ours}) AS ours`);
  // Another connection makes it, as soon as it may.
  await blocker.unsafe("ROLLBACK");
  expect(await asked).not.toBeNull();
  await locks.close();
  await Promise.all([blocker.end(), sql.end()]);
  await expect.poll(() => askPostgres(server.url, ours), SOON).toEqual([]);
});

test("of several hosts one that is silent does not use up the time", async () => {
  const proxy = await startFaultProxy({ target: server });
  onTestFinished(() => proxy.close());
  proxy.blackhole("both");
  const sql = makeSql({
    host: [proxy.host, server.host],
    port: [proxy.port, server.port],
    username: "postgres",
    database: "postgres",
    fetch_types: false,
  } as object);
  const locks = createLocks(postgres({ sql, prefix: "silent_host", timeout: "2s", listen: false }));
  onTestFinished(async () => {
    await locks.close({ drain: 0, abort: 0 });
    await sql.end();
  });
  expect(await locks.mutex("a").tryRun(() => "works")).toMatchObject({ ran: true });
});
