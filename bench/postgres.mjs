import { createLocks } from "locktender";
import { postgres } from "locktender/postgres";
import { median, timeMs } from "./bare.mjs";
import { describeHandOff } from "./contend.mjs";
import { startPostgres } from "./databases.mjs";

const ROUNDS = 11;
const CYCLES = 200;

/** What everybody writes by hand: a row per lock, taken by an upsert and given back by an update. */
async function bareLock(pool) {
  await pool.query("CREATE TABLE bare (name text PRIMARY KEY, id text, until timestamptz, owner text)");
  const take = `INSERT INTO bare VALUES ($1, $2, clock_timestamp() + interval '15 s', $3) ON CONFLICT (name)
    DO UPDATE SET id = excluded.id, until = excluded.until, owner = excluded.owner WHERE bare.until <= clock_timestamp()`;
  const give = "UPDATE bare SET until = clock_timestamp() WHERE name = $1 AND id = $2";
  let last = 0;
  return async () => {
    const id = `id-${++last}`;
    if ((await pool.query(take, ["bench", id, "owner"])).rowCount !== 1) throw new Error("taken");
    await pool.query(give, ["bench", id]);
  };
}

/** Uncontended beside the bare client in turns, then hand-offs, then what a grant costs while many wait. */
export async function* measure() {
  const { Pool } = (await import("pg")).default;
  const server = await startPostgres();
  const pool = new Pool({ connectionString: server.url, max: 4 });
  const locks = createLocks(postgres({ url: server.url }), { ttl: "60s", wait: "60s" });
  try {
    const bare = await bareLock(pool);
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
    yield describeHandOff(server.url, 500);
    for (const waiters of [10, 100, 1_000]) yield contended(locks, waiters);
  } finally {
    await locks.close();
    await pool.end();
    await server.stop();
  }
}

async function contended(locks, waiters) {
  const mutex = locks.mutex(["waiters", String(waiters)]);
  const holder = await mutex.acquire();
  const waits = Array.from({ length: waiters }, () => mutex.run(() => undefined));
  while ((await locks.inspect(mutex.name)).waiters.length < waiters)
    await new Promise((resolve) => setTimeout(resolve, 50));
  const tookMs = await timeMs(async () => {
    await holder.release();
    await Promise.all(waits);
  });
  return `${waiters} waiters: ${((waiters / tookMs) * 1_000).toFixed(0)} grants/s`;
}
