import { createLocks } from "locktender";
import { etcd } from "locktender/etcd";
import { median, timeMs } from "./bare.mjs";
import { startEtcd } from "./etcd-server.mjs";

const ROUNDS = 9;
const CYCLES = 200;

/** One server: cycles one after the other, then what a grant costs when 10, 100 and 1,000 wait. */
export async function* measure() {
  const server = await startEtcd();
  const locks = createLocks(etcd({ url: server.url }), { ttl: "10m", wait: "10m" });
  try {
    const mutex = locks.mutex("bench");
    const rates = [];
    for (let round = -1; round < ROUNDS; round++) {
      const tookMs = await timeMs(async () => {
        for (let cycle = 0; cycle < CYCLES; cycle++) await mutex.run(() => undefined);
      });
      if (round >= 0) rates.push((CYCLES / tookMs) * 1_000);
    }
    yield `acquire + release, one after the other  ${median(rates).toFixed(0)} cycles/s`;
    for (const waiters of [10, 100, 1_000]) yield contended(locks, server, waiters);
  } finally {
    await locks.close();
    await server.stop();
  }
}

async function contended(locks, server, waiters) {
  const mutex = locks.mutex(["waiters", String(waiters)]);
  const holder = await mutex.acquire();
  const waits = Array.from({ length: waiters }, () => mutex.run(() => undefined));
  while ((await locks.inspect(mutex.name)).waiters.length < waiters)
    await new Promise((resolve) => setTimeout(resolve, 50));
  const before = await server.received();
  const tookMs = await timeMs(async () => {
    await holder.release();
    await Promise.all(waits);
  });
  const asked = (await server.received()) - before;
  return `${waiters} waiters: ${((waiters / tookMs) * 1_000).toFixed(0)} grants/s, ${(asked / waiters).toFixed(2)} messages to the server per grant`;
}
