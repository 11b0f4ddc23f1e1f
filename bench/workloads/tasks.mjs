import { nowMs, startGroup } from "../contenders/group.mjs";
import { inRounds } from "../lib/rounds.mjs";

export const TASKS = 32;

/** One task of one process alone, and 32 tasks of it on one lock, in turns. */
export async function measureTasks(url, { ms, rounds, warmUp, onRound }) {
  const group = await startGroup({ library: "locktender", url }, 1, warmUp);
  try {
    const workers = { alone: 1, together: TASKS };
    const run = async (name) => ({ rate: await grantRate(group, { workers: workers[name], ms }) });
    return await inRounds({ rounds, names: Object.keys(workers), run, onRound });
  } finally {
    await group.stop();
  }
}

/** Grants a second by so many tasks of one process on one lock. */
export async function grantRate(group, { workers, ms }) {
  const untilMs = nowMs() + ms;
  const options = { name: `tasks-${workers}`, workers, untilMs, holdMs: 0 };
  const [report] = await group.ask("contended", options, 1);
  // A wait that is not over has no moment of its grant.
  const grants = report.workers.flat().filter(([, grantedMs]) => grantedMs < untilMs).length;
  return (grants / ms) * 1_000;
}
