import { createLocks } from "locktender";
import { mysql } from "locktender/mysql";
import { median, timeMs } from "./bare.mjs";
import { describeHandOff } from "./contend.mjs";
import { startMariadb } from "./databases.mjs";

const ROUNDS = 9;
const CYCLES = 100;

/** Uncontended beside a bare upsert and update in turns, then hand-offs, then what waiting costs. */
export async function* measure() {
  const { createPool } = await import("mysql2/promise");
  const server = await startMariadb();
  const pool = createPool({ uri: server.url, connectionLimit: 4 });
  const locks = createLocks(mysql({ url: server.url }), { ttl: "60s", wait: "60s" });
  try {
    await pool.query(
      "CREATE TABLE bare (name VARBINARY(255) PRIMARY KEY, id VARCHAR(64), until DATETIME(6))",
    );
    const take = `INSERT INTO bare VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL 15 SECOND)
      ON DUPLICATE KEY UPDATE id = IF(until <= UTC_TIMESTAMP(6), VALUES(id), id), until = IF(id = VALUES(id), VALUES(until), until)`;
    const give = "UPDATE bare SET until = UTC_TIMESTAMP(6) WHERE name = ? AND id = ?";
    let last = 0;
    const bare = async () => {
      const id = `id-${++last}`;
      await pool.execute(take, ["bench", id]);
      await pool.execute(give, ["bench", id]);
    };
    const mutex = locks.mutex("bench");
    const ours = () => mutex.run(() => undefined);
    const repeat = (cycle) => async () => {
      for (let index = 0; index < CYCLES; index++) await cycle();
    };
    const [ratios, rates] = [[], []];
    for (let round = -2; round < ROUNDS; round++) {
      const bareMs = await timeMs(repeat(bare));
      const oursMs = await timeMs(repeat(ours));
      if (round < 0) continue;
      ratios.push(bareMs / oursMs);
      rates.push((CYCLES / oursMs) * 1_000);
    }
    yield `acquire + release  ${median(rates).toFixed(0)} cycles/s, ratio to a bare upsert and update ${median(ratios).toFixed(2)} (median of ${ROUNDS} rounds in turns)`;
    yield describeHandOff(server.url, 300);
    yield idle(locks, pool);
  } finally {
    await locks.close();
    await pool.end();
    await server.stop();
  }
}

/** 100 claims at 20 names wait, and nothing moves. */
async function idle(locks, pool) {
  const names = Array.from({ length: 20 }, (_, index) => `idle-${index}`);
  const leases = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
  const stop = new AbortController();
  const waits = names.flatMap((name) =>
    [1, 2, 3, 4, 5].map(() =>
      locks
        .mutex(name)
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
  return `100 claims of one process wait at 20 names: ${perSecond.toFixed(1)} statements/s`;
}
