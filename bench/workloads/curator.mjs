import { startGroup } from "../contenders/group.mjs";
import { inRounds } from "../lib/rounds.mjs";
import { grantRate, TASKS } from "./tasks.mjs";

/** Locktender and Curator at one ZooKeeper, in turns: one task, then 32 on one lock. Each in one process. */
export async function measureCurator(server, { ms, rounds, warmUp, onRound }) {
  const group = await startGroup({ library: "locktender", url: server.url }, 1, warmUp);
  const curator = await server.startCurator();
  const rateOf = {
    locktender: (workers) => grantRate(group, { workers, ms }),
    curator: (workers) => curator.rate(workers, ms),
  };
  const measure = (workers) => {
    const run = async (name) => ({ rate: await rateOf[name](workers) });
    return inRounds({ rounds, warmUp: 2, names: Object.keys(rateOf), run, onRound });
  };
  try {
    return { alone: await measure(1), together: await measure(TASKS) };
  } finally {
    await curator.stop();
    await group.stop();
  }
}
