import { timeMs } from "./bare.mjs";
import { measureDatabase } from "./database.mjs";
import { startPostgres } from "./databases.mjs";

export async function* measure() {
  const { Pool } = (await import("pg")).default;
  const server = await startPostgres();
  const pool = new Pool({ connectionString: server.url, max: 4 });
  yield* measureDatabase({ server, pool, bare: bareLock, cycles: 200, more: contended });
}

/** A row per lock, taken by an upsert and given back by an update. */
async function bareLock(pool) {
  await pool.query("CREATE TABLE bare (name text PRIMARY KEY, id text, until timestamptz, owner text)");
  const take = `INSERT INTO bare VALUES ($1, $2, clock_timestamp() + interval '15 s', $3) ON CONFLICT (name)
    DO UPDATE SET id = excluded.id, until = excluded.until, owner = excluded.owner WHERE bare.until <= clock_timestamp()`;
  const give = "UPDATE bare SET until = clock_timestamp() WHERE name = $1 AND id = $2";
  return async (id) => {
    if ((await pool.query(take, ["bench", id, "owner"])).rowCount !== 1) throw new Error("taken");
    await pool.query(give, ["bench", id]);
  };
}

/** What a grant costs while many wait. */
async function* contended(locks) {
  for (const waiters of [10, 100, 1_000]) {
    const mutex = locks.mutex(["waiters", String(waiters)]);
    const holder = await mutex.acquire();
    const waits = Array.from({ length: waiters }, () => mutex.run(() => undefined));
    while ((await locks.inspect(mutex.name)).waiters.length < waiters)
      await new Promise((resolve) => setTimeout(resolve, 50));
    const tookMs = await timeMs(async () => {
      await holder.release();
      await Promise.all(waits);
    });
    yield `${waiters} waiters: ${((waiters / tookMs) * 1_000).toFixed(0)} grants/s`;
  }
}
