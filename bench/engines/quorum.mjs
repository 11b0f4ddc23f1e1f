import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { redlock } from "locktender/redlock";
import { median, percentile, timeMs } from "./bare.mjs";
import { contend, describeHandOff } from "./contend.mjs";
import { startRedis } from "./server.mjs";

const NODES = 5;
const ROUNDS = 15;
const CYCLES = 300;
const HAND_OFFS = 200;

/** Five servers against one of them, in turns: cycles one after the other, what they cost, contention, and hand-offs. */
export async function* measure({ url: singleUrl }) {
  const servers = await Promise.all(Array.from({ length: NODES }, startRedis));
  const url = `redlock://${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
  try {
    for (const library of ["ioredis", "redis"]) yield await sequential(servers, url, singleUrl, library);
    for (const holdMs of [0, 2]) yield await contended(servers, url, holdMs);
    yield await describeHandOff(url, HAND_OFFS);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

async function requests(servers) {
  const infos = await Promise.all(servers.map(({ client }) => client.info("commandstats")));
  const calls = infos.map((info) => Number(/cmdstat_evalsha:calls=(\d+)/.exec(info)?.[1] ?? 0));
  return calls.reduce((sum, count) => sum + count, 0);
}

async function sequential(servers, url, singleUrl, library) {
  const quorum = createLocks(redlock({ url, library, fresh: true }));
  const single = createLocks(redis({ url: singleUrl, library }));
  const repeat = (mutex) => async () => {
    for (let index = 0; index < CYCLES; index++) await (await mutex.acquire()).release();
  };
  const [ours, one] = [repeat(quorum.mutex("bench")), repeat(single.mutex("bench"))];
  const [ratios, rates] = [[], []];
  let asked = 0;
  for (let round = -5; round < ROUNDS; round++) {
    if (round === 0) asked = await requests(servers);
    const [oneMs, oursMs] = [await timeMs(one), await timeMs(ours)];
    if (round < 0) continue;
    ratios.push(oneMs / oursMs);
    rates.push((CYCLES / oursMs) * 1_000);
  }
  const perCycle = ((await requests(servers)) - asked) / (ROUNDS * CYCLES);
  await Promise.all([quorum.close(), single.close()]);
  return `${NODES} servers by ${library}: ${median(rates).toFixed(0)} cycles/s, ${median(ratios).toFixed(2)} of one server's rate (median of ${ROUNDS} rounds in turns; best ${Math.max(...ratios).toFixed(2)}), ${perCycle.toFixed(2)} requests per cycle`;
}

/** Several processes at one lock. */
async function contended(servers, url, holdMs) {
  const [processes, workers, rounds] = [4, 8, holdMs === 0 ? 50 : 20];
  let before = 0;
  const onReady = async () => {
    before = await requests(servers);
  };
  const { grants, tookMs, waitsMs } = await contend({ url, processes, workers, rounds, holdMs, onReady });
  const asked = (await requests(servers)) - before;
  return `${processes} processes x ${workers} workers on one lock, ${holdMs} ms hold: ${((grants.length / tookMs) * 1_000).toFixed(0)} grants/s, p50 wait ${percentile(waitsMs, 0.5).toFixed(0)} ms, p99 ${percentile(waitsMs, 0.99).toFixed(0)} ms, longest ${Math.max(...waitsMs).toFixed(0)} ms, ${(asked / grants.length).toFixed(1)} requests per grant`;
}
