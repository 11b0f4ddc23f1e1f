import { createServer, connect as dial } from "node:net";
import { createConnection, createPool } from "mysql2/promise";
import { expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { askMariadb, startMariadb } from "./server.js";
import { backend, begin, DATABASE, eventually, newPrefix, poolOf, request, SERVER } from "./tools.js";

const { table } = DATABASE.sql;

function granted(one: Backend, name: string): Promise<boolean> {
  return one.claim(request(name)).then(
    ({ state }) => state === "granted",
    () => false,
  );
}

test("a pool of one connection works again after a request that hung", async () => {
  const prefix = newPrefix();
  await backend({ prefix, timeout: "20s" }).claim(request("a"));
  const pool = poolOf(1);
  const one = backend({ pool, prefix, timeout: "300ms" });
  expect(await granted(one, "b")).toBe(true);
  const blocker = await begin();
  await blocker.query(`UPDATE ${table(prefix, "resources")} SET last_ticket = last_ticket + 1`);
  await expect(one.claim(request("a"))).rejects.toMatchObject({ code: "backend" });
  await blocker.query("ROLLBACK");
  await eventually("it works again", 10_000, () => granted(one, "c"));
});

test("a pool that two connections of ours share works again after requests that hung", async () => {
  const prefix = newPrefix();
  await backend({ prefix, timeout: "20s" }).claim(request("a"));
  const pool = poolOf(2);
  const [one, other] = [0, 1].map(() => backend({ pool, prefix, timeout: "300ms" }));
  if (one === undefined || other === undefined) throw new Error("there are two");
  expect(await granted(one, "b")).toBe(true);
  expect(await granted(other, "c")).toBe(true);
  const blocker = await begin();
  await blocker.query(`UPDATE ${table(prefix, "resources")} SET last_ticket = last_ticket + 1`);
  await Promise.all([one, other].map((each) => expect(each.claim(request("a"))).rejects.toThrow()));
  await blocker.query("ROLLBACK");
  await eventually("it works again", 10_000, () => granted(one, "d"));
});

test("requests that hang are not more than a pool allows that lets no caller wait", async () => {
  const prefix = newPrefix();
  await backend({ prefix, timeout: "20s" }).claim(request("a"));
  const pool = poolOf(2, { waitForConnections: false });
  const one = backend({ pool, prefix, timeout: "300ms" });
  expect(await granted(one, "b")).toBe(true);
  // The program itself uses the other one.
  const busy = await pool.getConnection();
  onTestFinished(() => busy.destroy());
  const blocker = await begin();
  await blocker.query(`UPDATE ${table(prefix, "resources")} SET last_ticket = last_ticket + 1`);
  for (let n = 0; n < 8; n++) await one.claim(request("a")).catch(() => undefined);
  const stuck = await DATABASE.ask(SERVER.url, DATABASE.sql.stuck(prefix));
  expect(stuck.length).toBeLessThanOrEqual(2);
});

test("after a statement of ours was killed, the program's own writes are committed", async () => {
  const prefix = newPrefix();
  const pool = poolOf(1);
  const one = backend({ pool, prefix, timeout: "10s" });
  const held = request("a");
  expect((await one.claim(held)).state).toBe("granted");
  await pool.query(`CREATE TABLE ${prefix}_orders (id INT PRIMARY KEY)`);
  const blocker = await begin();
  await blocker.query(`SELECT * FROM ${table(prefix, "claims")} FOR UPDATE`);
  const released = one.release(held).catch((error: unknown) => error);
  const stuck = `SELECT id FROM information_schema.processlist WHERE info LIKE '%claims%' AND command <> 'Sleep' AND id <> CONNECTION_ID()`;
  let id: unknown;
  await eventually("it waits for the row", 5_000, async () => {
    id = (await DATABASE.ask(SERVER.url, stuck))[0]?.id;
    return id !== undefined;
  });
  await DATABASE.ask(SERVER.url, `KILL QUERY ${id}`);
  expect(await released).toMatchObject({ code: "backend", retryable: true });
  await blocker.query("ROLLBACK");
  await pool.query(`INSERT INTO ${prefix}_orders VALUES (1)`);
  expect(await DATABASE.ask(SERVER.url, `SELECT id FROM ${prefix}_orders`)).toHaveLength(1);
});

/** A way to a server on which the connections of a moment may fall silent, as where a firewall forgets them. */
async function startWay(target: { port: number }) {
  const pairs = new Set<{ silence(): void }>();
  let greetOnly = false;
  const server = createServer((near) => {
    const far = dial(target.port, "127.0.0.1");
    let silent = false;
    const onlyGreets = greetOnly;
    near.on("data", (data) => !silent && !onlyGreets && far.write(data));
    far.on("data", (data) => !silent && near.write(data));
    near.on("close", () => !silent && far.destroy());
    far.on("close", () => !silent && !onlyGreets && near.destroy());
    for (const socket of [near, far]) socket.on("error", () => {});
    pairs.add({
      silence: () => {
        silent = true;
      },
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return {
    port: (server.address() as { port: number }).port,
    /** The connections of this moment. */
    silence: () => {
      for (const pair of pairs) pair.silence();
    },
    /** New connections hear the server's greeting, and nothing after it. */
    onlyGreet: (on: boolean) => {
      greetOnly = on;
    },
  };
}

function through(url: string, port: number): string {
  const changed = new URL(url);
  changed.port = String(port);
  return changed.href;
}

/** A statement of another program on the connection with that number; settles when it has ended by itself. */
async function bystander(url: string, threadId: number, forS: number): Promise<() => Promise<unknown>> {
  for (;;) {
    const connection = await createConnection({ uri: url });
    onTestFinished(() => connection.destroy());
    if (connection.threadId > threadId) throw new Error(`past ${threadId}: ${connection.threadId}`);
    if (connection.threadId < threadId) continue;
    const asked = connection.query(`SELECT SLEEP(${forS}) AS killed`);
    const answer = asked.then(([rows]) => Number((rows as { killed: unknown }[])[0]?.killed));
    answer.catch(() => undefined);
    return () => answer;
  }
}

test("a pool whose address has moved stops no request of another program on the new server", async () => {
  const [old, next] = await Promise.all([startMariadb(), startMariadb()]);
  onTestFinished(() => Promise.all([old.stop(), next.stop()]).then(() => undefined));
  // The old one has served more connections than the new one so far.
  for (let n = 0; n < 60; n++) await askMariadb(old.url, "SELECT 1");
  const prefix = newPrefix();
  for (const { url } of [old, next])
    await backend({ url, prefix, timeout: "20s", connections: 1 }).claim(request("a"));
  const target = { port: old.port };
  const way = await startWay(target);
  const pool = createPool({ uri: through(old.url, way.port), connectionLimit: 2 });
  onTestFinished(() => void pool.end());
  const one = backend({ pool, prefix, timeout: "500ms" });
  expect(await granted(one, "b")).toBe(true);
  const used = await pool.getConnection();
  const { threadId } = used;
  used.release();
  const theirs = await bystander(next.url, threadId, 3);
  // A failover: the old server is gone without a word, and the address leads to the new one.
  way.silence();
  target.port = next.port;
  await expect(one.claim(request("c"))).rejects.toThrow();
  expect(await theirs()).toBe(0);
});

test("a pool whose connections have all fallen silent works again when new ones can be made", async () => {
  const way = await startWay(SERVER);
  const prefix = newPrefix();
  const pool = createPool({ uri: through(SERVER.url, way.port), connectionLimit: 3 });
  onTestFinished(() => void pool.end());
  const one = backend({ pool, prefix, timeout: "500ms" });
  await backend({ prefix, timeout: "20s" }).claim(request("a"));
  // All three are open.
  const all = await Promise.all([0, 1, 2].map(() => pool.getConnection()));
  for (const connection of all) connection.release();
  expect(await granted(one, "b")).toBe(true);
  way.silence();
  await eventually("it works again", 10_000, () => granted(one, "c"));
});

test("a server that was started again is not told to stop what another program does there", async () => {
  const server = await startMariadb();
  onTestFinished(() => server.stop());
  for (let n = 0; n < 60; n++) await askMariadb(server.url, "SELECT 1");
  const prefix = newPrefix();
  const way = await startWay(server);
  const one = backend({ url: through(server.url, way.port), prefix, timeout: "10s", connections: 2 });
  expect(await granted(one, "b")).toBe(true);
  const [row] = await askMariadb(
    server.url,
    "SELECT id FROM information_schema.processlist WHERE command = 'Sleep' AND id <> CONNECTION_ID()",
  );
  way.silence();
  const asked = one.claim(request("c"));
  await server.process.restart();
  const theirs = await bystander(server.url, Number(row?.id), 15);
  await expect(asked).rejects.toThrow();
  expect(await theirs()).toBe(0);
});

test("a connection that hangs after the server's greeting is given up", async () => {
  const way = await startWay(SERVER);
  const prefix = newPrefix();
  const one = backend({ url: through(SERVER.url, way.port), prefix, timeout: "500ms", connections: 2 });
  way.onlyGreet(true);
  await expect(one.claim(request("a"))).rejects.toMatchObject({ code: "backend" });
  way.onlyGreet(false);
  await eventually("it works again", 10_000, () => granted(one, "b"));
});
