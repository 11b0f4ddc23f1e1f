import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { percentile } from "../lib/stats.mjs";

const PROCESS = fileURLToPath(new URL("./process.mjs", import.meta.url));
export const OWN_DIST = fileURLToPath(new URL("../../dist/", import.meta.url));

/**
 * Processes that run one library, and nothing else: none is warmed up or burdened by another library. They stay for
 * the whole run.
 */
export async function startGroup(spec, processes = 1, warmUp = { cycles: 1_000, ms: 1_000 }) {
  const argument = JSON.stringify({ dist: OWN_DIST, ...spec });
  // As where speed matters. In development Locktender remembers where each lease was acquired, and vite, by which the
  // servers of the tests are started, declares this to be development.
  const env = { ...process.env, NODE_ENV: "production" };
  const children = Array.from({ length: processes }, () => fork(PROCESS, [argument], { env }));
  await Promise.all(children.map((child) => reply(child)));
  const group = {
    ...spec,
    /** Asks all processes, or the first one alone, and gives their results. */
    ask(what, options, count = processes) {
      const asked = children.slice(0, count);
      const replies = asked.map((child) => reply(child));
      for (const child of asked) child.send({ what, options });
      return Promise.all(replies);
    },
    async stop() {
      await Promise.all(
        children.map((child) => {
          const exited = new Promise((resolve) => child.once("exit", resolve));
          if (child.exitCode !== null) return undefined;
          child.disconnect();
          return exited;
        }),
      );
    },
  };
  // Node.js compiles what runs often, and takes a second of work for it; more where more code is run.
  await group.ask("uncontended", { most: warmUp.cycles, ms: warmUp.ms, tasks: 64, newNames: true });
  return group;
}

function reply(child) {
  return new Promise((resolve, reject) => {
    const ended = (code) => reject(new Error(`a process of the benchmark has ended with ${code}`));
    child.once("exit", ended);
    child.once("message", ({ result, error, code }) => {
      child.off("exit", ended);
      if (error === undefined) resolve(result);
      else reject(Object.assign(new Error(error), { code }));
    });
  });
}

/** The same clock as that of the processes. */
export const nowMs = () => Number(process.hrtime.bigint() / 1_000n) / 1_000;

/** From the release in one of two processes to the grant in the other, where that one waited already. */
export async function handOff(url, rounds) {
  const group = await startGroup({ library: "locktender", url }, 2);
  try {
    const options = { name: "hand-off", workers: 1, untilMs: nowMs() + 60_000, rounds, holdMs: 1 };
    const grants = (await group.ask("contended", options))
      .flatMap(({ workers: [grants] }, process) => grants.map((times) => ({ process, times })))
      .filter(({ times }) => times.length === 3)
      .sort((one, other) => one.times[1] - other.times[1]);
    const took = grants.slice(1).flatMap((after, index) => {
      const before = grants[index];
      const waited = before.process !== after.process && after.times[0] < before.times[2];
      return waited ? [after.times[1] - before.times[2]] : [];
    });
    return { count: took.length, p50: percentile(took, 0.5), p99: percentile(took, 0.99) };
  } finally {
    await group.stop();
  }
}

export async function describeHandOff(url, rounds) {
  const { count, p50, p99 } = await handOff(url, rounds);
  return `2 processes: ${count} hand-offs, p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`;
}
