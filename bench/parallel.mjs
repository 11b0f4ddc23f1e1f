import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { bareLock, median, timeMs } from "./bare.mjs";

const ROUNDS = 11;
const NAMES = 64;
const CYCLES = 100;

/** Many names at once through one connection. */
export async function* measure({ client }) {
  const bare = await bareLock(client);
  const locks = createLocks(redis({ client }));
  const mutexes = Array.from({ length: NAMES }, (_, index) => locks.mutex(["bench", String(index)]));
  const ours = async (mutex) => {
    const lease = await mutex.acquire();
    await lease.release();
  };
  const inParallel = (cycle) => () =>
    Promise.all(
      mutexes.map(async (mutex) => {
        for (let index = 0; index < CYCLES; index++) await cycle(mutex);
      }),
    );
  const ratios = [];
  let oursMs = 0;
  for (let round = -2; round < ROUNDS; round++) {
    const bareMs = await timeMs(inParallel((mutex) => bare(mutex.name)));
    oursMs = await timeMs(inParallel(ours));
    if (round >= 0) ratios.push(bareMs / oursMs);
  }
  await locks.close();
  yield `${NAMES} names in parallel: ${((NAMES * CYCLES * 1_000) / oursMs).toFixed(0)} cycles/s, ratio to bare ${median(ratios).toFixed(2)}`;
}
