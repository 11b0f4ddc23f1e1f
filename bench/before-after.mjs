import { access } from "node:fs/promises";
import { join, resolve } from "node:path";
import { OWN_DIST, startGroup } from "./contenders/group.mjs";
import { inRounds } from "./lib/rounds.mjs";
import { median, ratioOf } from "./lib/stats.mjs";
import { short } from "./report/table.mjs";
import { startRedis } from "./servers/redis.mjs";
import { fight } from "./workloads/contended.mjs";
import { cycles, refuses } from "./workloads/uncontended.mjs";

const ROUNDS = 15;
const WARM_UP = { cycles: 20_000, ms: 10_000 };
const ENOUGH = 0.95;
const [FREE_MS, KEY_MS] = [300, 600];

const free = (more) => (group, server) => cycles(group, server, { ms: FREE_MS, ...more });
const WORKLOADS = {
  "one after the other, a new name each time": { run: free({ tasks: 1, newNames: true }) },
  "the same name again and again": { run: free({ tasks: 1, newNames: false }) },
  "the same name, sticky": {
    run: free({ tasks: 1, newNames: false, lock: { sticky: "1s" } }),
    lock: { sticky: "1s" },
  },
  "64 names in parallel": { run: free({ tasks: 64, newNames: false }) },
  "memory engine, one after the other": { run: free({ tasks: 1, newNames: true }), memory: true },
  "one key, 4 processes × 8 workers": {
    run: (group, server) => fight(group, server, { ms: KEY_MS, holdMs: 0 }),
  },
  "the same, fair": {
    run: (group, server) => fight(group, server, { ms: KEY_MS, holdMs: 0, lock: { fair: true } }),
  },
};

/** Two builds in turns in one run: `dist` is that of before, and stands beside the node_modules that it needs. */
export async function measureBeforeAfter(dist, { progress, print }) {
  const dists = { before: resolve(dist), after: OWN_DIST };
  await access(join(dists.before, "index.js"));
  const server = await startRedis();
  const groups = [];
  const start = async (url, processes) => {
    const started = {};
    for (const [name, dist] of Object.entries(dists)) {
      started[name] = await startGroup({ library: "locktender", url, dist }, processes, WARM_UP);
      groups.push(started[name]);
    }
    return started;
  };
  let slower = 0;
  try {
    const onRedis = await start(server.url, 4);
    const inMemory = await start("memory:bench", 1);
    for (const [title, { run, memory, lock }] of Object.entries(WORKLOADS)) {
      const of = memory ? inMemory : onRedis;
      if (lock && ((await refuses(of.before, lock)) || (await refuses(of.after, lock)))) {
        print(`${title}: unsupported by one of the builds`);
        continue;
      }
      const measured = await inRounds({
        rounds: ROUNDS,
        warmUp: 2,
        names: Object.keys(dists),
        run: async (name) => ({ rate: (await run(of[name], server)).rate }),
        onRound: (detail) => progress.show(title, detail),
      });
      progress.end();
      const { value, low, high } = ratioOf(measured.after.rate, measured.before.rate);
      const rates = Object.values(measured).map(({ rate }) => short(median(rate)));
      const verdict = low >= ENOUGH ? "" : "  slower, or too noisy to tell";
      if (low < ENOUGH) slower++;
      print(
        `${title}: ${rates.join(" → ")} per second, ratio ${short(value)}, at least ${short(low)}, at most ${short(high)}${verdict}`,
      );
    }
  } finally {
    progress.end();
    for (const group of groups) await group.stop();
    await server.stop();
  }
  return slower;
}
