import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { bareLock, median, timeMs } from "./bare.mjs";

const ROUNDS = 21;
const CYCLES = 1_000;

/** One after the other, on one free lock: the price of everything a lock does beyond SET NX. */
export async function* measure({ client }) {
  const bare = await bareLock(client);
  const locks = createLocks(redis({ client }));
  const mutex = locks.mutex("bench");
  const ours = async () => {
    const lease = await mutex.acquire();
    await lease.release();
  };
  const repeat = (cycle) => async () => {
    for (let index = 0; index < CYCLES; index++) await cycle();
  };
  const ratios = [];
  const rates = { bare: [], ours: [] };
  for (let round = -3; round < ROUNDS; round++) {
    const bareMs = await timeMs(repeat(() => bare("bare")));
    const oursMs = await timeMs(repeat(ours));
    if (round < 0) continue;
    ratios.push(bareMs / oursMs);
    rates.bare.push((CYCLES / bareMs) * 1_000);
    rates.ours.push((CYCLES / oursMs) * 1_000);
  }
  await locks.close();
  yield `bare SET NX PX + Lua release  ${median(rates.bare).toFixed(0)} cycles/s`;
  yield `locktender acquire + release  ${median(rates.ours).toFixed(0)} cycles/s`;
  yield `ratio (median of ${ROUNDS} interleaved rounds)  ${median(ratios).toFixed(2)}`;
}
