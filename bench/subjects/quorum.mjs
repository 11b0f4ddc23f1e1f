import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { redlock } from "locktender/redlock";
import { describeHandOff, startGroup } from "../contenders/group.mjs";
import { REQUESTS } from "../contenders/libraries.mjs";
import { inRounds } from "../lib/rounds.mjs";
import { median, ratioOf, timeMs } from "../lib/stats.mjs";
import { short } from "../report/table.mjs";
import { startQuorum } from "../servers/quorum.mjs";
import { between } from "../servers/redis.mjs";
import { CONTENDED, fight, PROCESSES } from "../workloads/contended.mjs";

const ROUNDS = 15;
const CYCLES = 300;
const HAND_OFFS = 200;
const CONTENDED_MS = 3_000;

/** Five servers against one of them, in turns: cycles one after the other, what they cost, contention, and hand-offs. */
export async function* measure({ url: singleUrl }) {
  const quorum = await startQuorum();
  try {
    for (const library of ["ioredis", "redis"]) yield await sequential(quorum, singleUrl, library);
    yield* contended(quorum);
    yield await describeHandOff(quorum.url, HAND_OFFS);
  } finally {
    await quorum.stop();
  }
}

async function sequential(quorum, singleUrl, library) {
  const opened = {
    one: createLocks(redis({ url: singleUrl, library })),
    five: createLocks(redlock({ url: quorum.url, library, fresh: true })),
  };
  const run = async (name) => {
    const mutex = opened[name].mutex("bench");
    const before = await quorum.counters();
    const tookMs = await timeMs(async () => {
      for (let index = 0; index < CYCLES; index++) await (await mutex.acquire()).release();
    });
    const { requests } = between(before, await quorum.counters(), REQUESTS.locktender);
    return { rate: (CYCLES / tookMs) * 1_000, requests: requests / CYCLES };
  };
  const { one, five } = await inRounds({ rounds: ROUNDS, warmUp: 5, names: Object.keys(opened), run });
  await Promise.all(Object.values(opened).map((locks) => locks.close()));
  const { value, high } = ratioOf(five.rate, one.rate);
  return `5 servers by ${library}: ${short(median(five.rate))} cycles/s, ${short(value)} of one server's rate (median of ${ROUNDS} rounds in turns, at most ${short(high)}), ${short(median(five.requests))} requests per cycle`;
}

/** Several processes at one lock. */
async function* contended(quorum) {
  const group = await startGroup({ library: "locktender", url: quorum.url }, PROCESSES);
  try {
    for (const { title, holdMs } of Object.values(CONTENDED)) {
      const { rate, p50, p99, longest, requests } = await fight(group, quorum, { ms: CONTENDED_MS, holdMs });
      const waits = `p50 wait ${short(p50)} ms, p99 ${short(p99)} ms, longest ${short(longest)} ms`;
      yield `${title}: ${short(rate)} grants/s, ${waits}, ${short(requests)} requests per grant`;
    }
  } finally {
    await group.stop();
  }
}
