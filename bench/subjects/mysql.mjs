import { measureDatabase } from "../lib/database.mjs";
import { startMariadb } from "../servers/databases.mjs";

export async function* measure() {
  const { createPool } = await import("mysql2/promise");
  const server = await startMariadb();
  const pool = createPool({ uri: server.url, connectionLimit: 4 });
  yield* measureDatabase({ server, pool, bare: bareLock, cycles: 100, more: idle });
}

/** A row per lock, taken by an upsert and given back by an update. */
async function bareLock(pool) {
  await pool.query("CREATE TABLE bare (name VARBINARY(255) PRIMARY KEY, id VARCHAR(64), until DATETIME(6))");
  const take = `INSERT INTO bare VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL 15 SECOND)
    ON DUPLICATE KEY UPDATE id = IF(until <= UTC_TIMESTAMP(6), VALUES(id), id), until = IF(id = VALUES(id), VALUES(until), until)`;
  const give = "UPDATE bare SET until = UTC_TIMESTAMP(6) WHERE name = ? AND id = ?";
  return async (id) => {
    await pool.execute(take, ["bench", id]);
    await pool.execute(give, ["bench", id]);
  };
}

/** 100 claims at 20 names wait, and nothing moves. They are fair: else the tasks of a process share one claim. */
async function* idle(locks, pool) {
  const names = Array.from({ length: 20 }, (_, index) => `idle-${index}`);
  const leases = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
  const stop = new AbortController();
  const waits = names.flatMap((name) =>
    [1, 2, 3, 4, 5].map(() =>
      locks
        .mutex(name, { fair: true })
        .acquire({ signal: stop.signal })
        .catch(() => undefined),
    ),
  );
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  const calls = async () => {
    const [[row]] = await pool.query("SHOW GLOBAL STATUS LIKE 'Com_call_procedure'");
    return Number(row.Value);
  };
  const before = await calls();
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const perSecond = ((await calls()) - before) / 5;
  stop.abort(new Error("enough"));
  await Promise.all(waits);
  await Promise.all(leases.map((lease) => lease.release()));
  yield `100 claims of one process wait at 20 names: ${perSecond.toFixed(1)} statements/s`;
}
