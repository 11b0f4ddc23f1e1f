import { setTimeout as sleep } from "node:timers/promises";
import { nowMs } from "../contenders/group.mjs";
import { REQUESTS } from "../contenders/libraries.mjs";
import { inRounds } from "../lib/rounds.mjs";
import { percentile, percentilePerWorker } from "../lib/stats.mjs";
import { between } from "../servers/redis.mjs";

export const PROCESSES = 4;
const WORKERS = 8;
const PEERS = ["redlock", "redis-semaphore", "verrou"];
const BEST = ", best delay";
let drawn = 0;

export const CONTENDED = {
  "no-hold": { title: `one key, ${PROCESSES} processes × ${WORKERS} workers, no hold`, holdMs: 0 },
  "hold-2ms": { title: `one key, ${PROCESSES} processes × ${WORKERS} workers, 2 ms hold`, holdMs: 2 },
};

/** Is it another library, with its defaults or with its best delay? */
export const isPeer = (contender) => PEERS.some((peer) => contender.startsWith(peer));

/** Tries each delay once for each of the other libraries, and gives the one with the most grants. */
export async function sweep(id, { groups, server, ms, delaysMs, onRound }) {
  const { holdMs } = CONTENDED[id];
  const best = {};
  for (const peer of PEERS) {
    const rates = [];
    for (const retryMs of delaysMs) {
      onRound(`${peer}, a delay of ${retryMs} ms`);
      rates.push((await fight(groups[peer], server, { ms, holdMs, lock: { retryMs } })).rate);
    }
    best[peer] = delaysMs[rates.indexOf(Math.max(...rates))];
  }
  return best;
}

/** Locktender in arrival order and by default, the bare client, and each peer with its defaults and its best delay. */
export async function measureContended(id, { groups, server, ms, rounds, warmUp, bestDelaysMs, onRound }) {
  const { title, holdMs } = CONTENDED[id];
  const settings = {
    locktender: ["locktender", {}],
    "locktender, fair": ["locktender", { fair: true }],
    bare: ["bare", {}],
  };
  for (const peer of PEERS) {
    settings[peer] = [peer, {}];
    settings[`${peer}${BEST}`] = [peer, { retryMs: bestDelaysMs[peer] }];
  }
  const run = (name) => {
    const [library, lock] = settings[name];
    return fight(groups[library], server, { ms, holdMs, lock });
  };
  const contenders = await inRounds({ rounds, warmUp, names: Object.keys(settings), run, onRound });
  return { title, bestDelaysMs, contenders };
}

/** One slice of time. A wait that is not over at its end counts with what it was until then. */
export async function fight(group, server, { ms, holdMs, lock }) {
  const before = await server.counters();
  const untilMs = nowMs() + ms;
  const options = { name: `bench:one-key-${drawn++}`, workers: WORKERS, untilMs, holdMs, lock };
  const replies = group.ask("contended", options);
  // Read before those that still wait give up: that costs requests, too.
  await Promise.race([sleep(ms), replies]);
  const after = await server.counters();
  const reports = await replies;
  const workers = reports.flatMap((report) => report.workers);
  const granted = workers.map((one) => one.filter(([, grantedMs]) => grantedMs < untilMs));
  const grants = granted.flat().length;
  const heldMs = granted.flat().reduce((sum, [, fromMs, toMs]) => sum + Math.min(toMs, untilMs) - fromMs, 0);
  const waitsMs = workers.map((one) => one.map(([askedMs, grantedMs]) => (grantedMs ?? untilMs) - askedMs));
  const used = between(before, after, REQUESTS[group.library]);
  const counts = granted.map((one) => one.length);
  return {
    rate: (grants / ms) * 1_000,
    p50: percentilePerWorker(waitsMs, 0.5),
    p99: percentilePerWorker(waitsMs, 0.99),
    p99OfGrants: percentile(waitsMs.flat(), 0.99),
    longest: waitsMs.flat().reduce((most, one) => Math.max(most, one), 0),
    busy: heldMs / ms,
    fewest: Math.min(...counts),
    most: Math.max(...counts),
    clientUs: reports.reduce((sum, { cpuUs }) => sum + cpuUs, 0) / grants,
    serverUs: used.cpuUs / grants,
    requests: used.requests / grants,
  };
}
