import { createLocks } from "locktender";
import { expect, onTestFinished, test } from "vitest";
import { poolPromises } from "../databases/pools.js";
import { backend, begin, DATABASE, eventually, newPrefix, poolOf, queued, request } from "./tools.js";

poolPromises(DATABASE);

test("a pool that reads values in its own way changes nothing", async () => {
  const pool = poolOf(3, { typeCast: false, rowsAsArray: true, namedPlaceholders: true });
  const locks = createLocks(backend({ pool }));
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const lease = await locks.mutex("a").acquire();
  const waiting = locks.mutex("a", { fair: true }).acquire();
  await queued(locks, "a", 1);
  await lease.release();
  expect((await waiting).token).toBeGreaterThan(lease.token);
});

test("a pool that nests rows by their tables works", async () => {
  const one = backend({ pool: poolOf(2, { nestTables: true }) });
  expect((await one.claim(request("a"))).state).toBe("granted");
});

test("making the schema leaves nothing set on a connection of the caller's", async () => {
  const pool = poolOf(1, { charset: "UTF8MB4_SPANISH_CI" });
  const settings = async () =>
    (await pool.query("SELECT @@sql_mode, @@collation_connection, @@character_set_results, @@autocommit"))[0];
  const before = await settings();
  await backend({ pool }).claim(request("a"));
  expect(await settings()).toEqual(before);
});

test("a server that gives up a lock sooner than we do is not asked for much longer than we would wait", async () => {
  const prefix = newPrefix();
  const pool = poolOf(2);
  pool.on("connection", (connection) => {
    // As the library hands it out, whatever its types say: a connection of the other kind.
    const raw = connection as unknown as { query(sql: string): void };
    raw.query("SET SESSION innodb_lock_wait_timeout = 1");
  });
  const one = backend({ pool, prefix, timeout: "2s" });
  await one.claim(request("a"));
  const blocker = await begin();
  await blocker.query(`UPDATE ${prefix}_resources SET last_ticket = last_ticket + 1`);
  let failure: unknown;
  one.claim(request("a")).catch((error: unknown) => {
    failure = error;
  });
  // It may ask again for as long as one request may take, and the last time takes as long as the first.
  await eventually("it has failed", 8_000, () => failure !== undefined);
  expect(failure).toMatchObject({ code: "backend", retryable: true });
});
