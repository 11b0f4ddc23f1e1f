import { connect } from "locktender";
import { describeHandOff } from "../contenders/group.mjs";
import { median, timeMs } from "./stats.mjs";

const ROUNDS = 11;
const HAND_OFFS = 300;

/**
 * Locks in a database: uncontended, in turns with what people write by hand (`bare`, on a pool of the
 * library's own); then hand-offs; then what its `more` yields.
 */
export async function* measureDatabase({ server, pool, bare, cycles, more }) {
  const locks = await connect(server.url, { ttl: "60s", wait: "60s" });
  try {
    yield await besideBare(locks, await bare(pool), cycles);
    yield await describeHandOff(server.url, HAND_OFFS);
    yield* more(locks, pool);
  } finally {
    await locks.close();
    await pool.end();
    await server.stop();
  }
}

async function besideBare(locks, bare, cycles) {
  const mutex = locks.mutex("bench");
  const repeat = (cycle) => async () => {
    for (let index = 0; index < cycles; index++) await cycle(`id-${index}`);
  };
  const [ratios, rates] = [[], []];
  for (let round = -2; round < ROUNDS; round++) {
    const bareMs = await timeMs(repeat(bare));
    const oursMs = await timeMs(repeat(() => mutex.run(() => undefined)));
    if (round < 0) continue;
    ratios.push(bareMs / oursMs);
    rates.push((cycles / oursMs) * 1_000);
  }
  return `acquire + release  ${median(rates).toFixed(0)} cycles/s, ratio to a bare upsert and update ${median(ratios).toFixed(2)} (median of ${ROUNDS} rounds in turns)`;
}
