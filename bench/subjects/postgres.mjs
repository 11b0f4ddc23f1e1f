import { measureDatabase } from "../lib/database.mjs";
import { startPostgres } from "../servers/databases.mjs";
import { besideWaiters } from "../workloads/waiters.mjs";

export async function* measure() {
  const { Pool } = (await import("pg")).default;
  const server = await startPostgres();
  const pool = new Pool({ connectionString: server.url, max: 4 });
  yield* measureDatabase({ server, pool, bare: bareLock, cycles: 200, more: () => besideWaiters(server) });
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
