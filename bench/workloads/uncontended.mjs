import { REQUESTS } from "../contenders/libraries.mjs";
import { inRounds } from "../lib/rounds.mjs";
import { between } from "../servers/redis.mjs";

/** Locks that are free. The names are those of the contenders in the results. */
export const UNCONTENDED = {
  sequential: {
    title: "one after the other, a new name each time",
    load: { tasks: 1, newNames: true },
    of: ["bare", "locktender", "redlock", "redis-semaphore", "verrou", "memory"],
  },
  parallel: {
    title: "64 names in parallel",
    load: { tasks: 64, newNames: false },
    of: ["bare", "locktender", "redlock", "redis-semaphore", "verrou", "memory"],
  },
  sticky: {
    title: "the same name again and again, sticky",
    load: { tasks: 1, newNames: false },
    of: ["bare", "locktender", "memory"],
    lock: { locktender: { sticky: "1s" } },
  },
};

/** Each library in one process of its own. What a build or an engine does not offer is named, and left out. */
export async function measureUncontended(id, { groups, server, ms, rounds, onRound }) {
  const { title, load, of, lock = {} } = UNCONTENDED[id];
  const unsupported = [];
  for (const name of Object.keys(lock)) {
    if (await refuses(groups[name], lock[name])) unsupported.push(name);
  }
  const names = of.filter((name) => !unsupported.includes(name));
  const run = (name) => cycles(groups[name], server, { ms, ...load, lock: lock[name] });
  return { title, unsupported, contenders: await inRounds({ rounds, names, run, onRound }) };
}

export async function refuses(group, lock) {
  try {
    await group.ask("uncontended", { ms: 1, tasks: 1, newNames: true, lock }, 1);
    return false;
  } catch (error) {
    if (error.code === "unsupported" || error.code === "invalid-option") return true;
    throw error;
  }
}

/** One slice of time: cycles a second, and what a cycle costs the client and the server. */
export async function cycles(group, server, options) {
  const before = await server.counters();
  const [{ cycles, tookMs, cpuUs }] = await group.ask("uncontended", options, 1);
  const used = between(before, await server.counters(), REQUESTS[group.library]);
  return {
    rate: (cycles / tookMs) * 1_000,
    clientUs: cpuUs / cycles,
    serverUs: used.cpuUs / cycles,
    requests: used.requests / cycles,
  };
}
