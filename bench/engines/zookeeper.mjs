import { createLocks } from "locktender";
import { zookeeper } from "locktender/zookeeper";
import { median, timeMs } from "./bare.mjs";
import { startZooKeeper } from "./zookeeper-server.mjs";

const ROUNDS = 5;
const CYCLES = 2_000;
const TASKS = 32;

/** One lock on one server, beside Curator in turns; and what a grant costs the server while many wait. */
export async function* measure() {
  const server = await startZooKeeper();
  try {
    yield* compare(server, 1, "one after the other");
    yield* compare(server, TASKS, `${TASKS} on one lock`);
    for (const waiters of [10, 100, 1_000]) yield await perGrant(server, waiters);
  } finally {
    await server.stop();
  }
}

async function* compare(server, tasks, what) {
  const locks = createLocks(zookeeper({ url: server.url }), { ttl: "30s", wait: "60s" });
  const mutex = locks.mutex(["bench", String(tasks)]);
  const repeat = async () => {
    for (let cycle = 0; cycle < CYCLES / tasks; cycle++) await mutex.run(() => undefined);
  };
  const ours = async () => {
    await Promise.all(Array.from({ length: tasks }, repeat));
  };
  await ours();
  const rates = { ours: [], curator: [] };
  for (let round = 0; round < ROUNDS; round++) {
    rates.ours.push((CYCLES / (await timeMs(ours))) * 1_000);
    rates.curator.push(await server.curator(tasks, CYCLES));
  }
  await locks.close();
  const [ourRate, theirRate] = [median(rates.ours), median(rates.curator)];
  yield `${what}: ${ourRate.toFixed(0)} grants/s, Curator ${theirRate.toFixed(0)}, ratio ${(ourRate / theirRate).toFixed(2)} (medians of ${ROUNDS} rounds in turns)`;
}

async function perGrant(server, waiters) {
  const locks = createLocks(zookeeper({ url: server.url }), { ttl: "5m", wait: "5m" });
  const mutex = locks.mutex(["waiters", String(waiters)]);
  const holder = await mutex.acquire();
  const runs = Array.from({ length: waiters }, () => mutex.run(() => undefined));
  while ((await locks.inspect(mutex.name)).waiters.length < waiters)
    await new Promise((r) => setTimeout(r, 50));
  const before = await server.received();
  const tookMs = await timeMs(async () => {
    await holder.release();
    await Promise.all(runs);
  });
  const requests = (await server.received()) - before;
  await locks.close();
  return `${waiters} waiters: ${(requests / waiters).toFixed(2)} requests per grant, ${((waiters / tookMs) * 1_000).toFixed(0)} grants/s`;
}
