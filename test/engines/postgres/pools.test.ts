import { createLocks } from "locktender";
import { types } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { poolPromises } from "../databases/pools.js";
import { askPostgres, startPgBouncer } from "./server.js";
import {
  backend,
  DATABASE,
  eventually,
  newPrefix,
  open,
  poolOf,
  queued,
  request,
  SERVER,
  sleep,
} from "./tools.js";

const { url } = SERVER;

poolPromises(DATABASE);

test("a pool of the caller's is used, not closed, and nothing stays on its connections", async () => {
  const pool = poolOf(url, 3);
  const locks = createLocks(backend({ pool, prefix: newPrefix() }));
  const lease = await locks.mutex("a").acquire();
  const waiting = locks.mutex("a").acquire();
  await queued(locks, "a", 1);
  await lease.release();
  await (await waiting).release();
  await locks.close();
  const clients = await Promise.all([pool.connect(), pool.connect(), pool.connect()]);
  const fresh = await poolOf(url, 1).connect();
  onTestFinished(() => fresh.release());
  for (const client of clients) {
    const kept = `SELECT (SELECT count(*) FROM pg_prepared_statements) AS prepared,
      (SELECT count(*) FROM pg_listening_channels()) AS channels, current_setting('search_path') AS path`;
    const { rows } = await client.query(kept);
    expect(rows).toEqual([{ prepared: "0", channels: "0", path: '"$user", public' }]);
    expect(client.listenerCount("notification")).toBe(0);
    expect(client.listenerCount("error")).toBe(fresh.listenerCount("error"));
    expect(client.listenerCount("end")).toBe(fresh.listenerCount("end"));
    client.release();
  }
});

test("behind PgBouncer in transaction mode locks work, waiters poll, and guarantees say so", async () => {
  const { host, port } = SERVER;
  const bouncer = await startPgBouncer({ host, port });
  onTestFinished(() => bouncer.stop());
  const prefix = newPrefix();
  const [one, other] = [open({ url: bouncer.url, prefix }), open({ url: bouncer.url, prefix })];
  const lease = await one.mutex("a").acquire();
  const waiting = other.mutex("a").acquire();
  await queued(one, "a", 1);
  await eventually(
    "it is known",
    5_000,
    () => !one.guarantees.notifications && !other.guarantees.notifications,
  );
  expect(other.guarantees.caveats.join()).toMatch(/LISTEN does not work here/);
  await lease.release();
  const releasedAt = performance.now();
  const next = await waiting;
  // Its heartbeat would tell it after ten.
  expect(performance.now() - releasedAt).toBeLessThan(3_000);
  // And a holder is told when it is forced out, though the server cannot notify it.
  const told = new Promise((resolve) => next.signal.addEventListener("abort", resolve));
  await one.forceRelease("a", { reason: "must go" });
  await told;
  expect(next.signal.reason).toMatchObject({ loss: "forced", reason: "must go" });
  // 20 hand-offs, each at the latest after 100 ms, and some time for a busy machine.
  const startedAt = performance.now();
  await Promise.all(
    [one, other].flatMap((locks) => Array.from({ length: 10 }, () => locks.mutex("b").run(() => sleep(1)))),
  );
  expect(performance.now() - startedAt).toBeLessThan(6_000);
});

test("behind PgBouncer locks of different schemas never meet, though they share its connections", async () => {
  const { host, port } = SERVER;
  const bouncer = await startPgBouncer({ host, port });
  onTestFinished(() => bouncer.stop());
  const all = Array.from({ length: 4 }, () => backend({ url: bouncer.url, timeout: "10s" }));
  for (let round = 0; round < 10; round++) {
    const answers = await Promise.all(all.map((one) => one.claim(request(`name-${round}`))));
    expect(answers.map(({ state }) => state)).toEqual(all.map(() => "granted"));
  }
});

test("a claim that does not wait causes no notification, and one that waits causes one", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const listener = poolOf(url, 1);
  const client = await listener.connect();
  onTestFinished(() => client.release(true));
  const heard: string[] = [];
  client.on("notification", ({ payload = "" }) => heard.push(payload));
  const [first, second] = [request("a"), request("a")];
  await one.claim(first);
  await one.claim(second);
  const [row] = await askPostgres(url, `SELECT bell FROM "${prefix}".claims WHERE id = '${second.id}'`);
  await client.query(`LISTEN "${row?.bell}"`);
  await one.claim(request("b"));
  expect(heard).toEqual([]);
  await one.release(first);
  await expect.poll(() => heard).toHaveLength(1);
  expect(heard[0]).toMatch(new RegExp(`^\\d+ ${second.id} granted$`));
});

test("a program that reads numbers in its own way changes nothing", async () => {
  const usual = types.getTypeParser(20);
  types.setTypeParser(20, BigInt);
  onTestFinished(() => types.setTypeParser(20, usual));
  const one = backend({ listen: false });
  const [first, second] = [request("a"), request("a")];
  await one.claim(first);
  let told = false;
  one.watch(second, () => {
    told = true;
  });
  await one.claim(second);
  await one.release(first);
  await eventually("it is told", 5_000, () => told);
});

test("the last free connection of a pool is not used up by trying whether it can listen", async () => {
  const pool = poolOf(url, 2);
  const locks = createLocks(backend({ pool, timeout: "500ms" }));
  const taken = await pool.connect();
  const startedAt = performance.now();
  let failures = 0;
  while (performance.now() - startedAt < 4_000) {
    const asked = locks.mutex("a").tryAcquire();
    await asked.then(
      (lease) => lease?.release(),
      () => failures++,
    );
    await sleep(20);
  }
  taken.release();
  await locks.close();
  // One while it tries; then it knows.
  expect(failures).toBeLessThanOrEqual(2);
});
