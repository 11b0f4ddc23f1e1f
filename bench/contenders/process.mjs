// One process of a contender: opens its library, and then measures what it is asked to.
import { openLibrary } from "./libraries.mjs";

const library = await openLibrary(JSON.parse(process.argv[2]));
let drawn = 0;

/** The monotonic clock of the machine, which all processes share. */
const nowMs = () => Number(process.hrtime.bigint() / 1_000n) / 1_000;

const MEASURE = { uncontended, contended };

process.on("message", async ({ what, options }) => {
  try {
    const cpu = process.cpuUsage();
    const result = await MEASURE[what](options);
    const { user, system } = process.cpuUsage(cpu);
    process.send({ result: { ...result, cpuUs: user + system } });
  } catch (error) {
    process.send({ error: `${error.name}: ${error.message}`, code: error.code });
  }
});
process.on("disconnect", () => process.exit());
process.send({ result: "ready" });

/** So many tasks at once, each with names of its own: a new one each time, or always the same. Ends after `ms` or `most`. */
async function uncontended({ ms = Infinity, most = Infinity, tasks, newNames, lock: options }) {
  const startMs = performance.now();
  const untilMs = startMs + ms;
  let cycles = 0;
  const task = async (_, index) => {
    const same = library.lock(`bench:${process.pid}:${index}`, options);
    while (performance.now() < untilMs && cycles < most) {
      const { acquire, release } = newNames
        ? library.lock(`bench:${process.pid}:new-${drawn++}`, options)
        : same;
      await release(await acquire());
      cycles++;
    }
  };
  await Promise.all(Array.from({ length: tasks }, task));
  return { cycles, tookMs: performance.now() - startMs };
}

/**
 * Workers that want one lock until a moment on the clock; for each grant: asked, granted, released. A worker that waits
 * when that moment comes has only asked.
 */
async function contended({ name, workers, untilMs, rounds = Infinity, holdMs, lock: options }) {
  const worker = async () => {
    const { acquire, release } = library.lock(name, options);
    const grants = [];
    for (let round = 0; round < rounds; round++) {
      const askedMs = nowMs();
      // No library takes a wait of less than a millisecond for more than one question.
      if (askedMs > untilMs - 1) break;
      let held;
      try {
        held = await acquire(untilMs - askedMs);
      } catch (error) {
        if (!library.isTimeout?.(error)) throw error;
      }
      if (held === undefined) {
        grants.push([askedMs]);
        break;
      }
      const grantedMs = nowMs();
      if (holdMs > 0) await new Promise((resolve) => setTimeout(resolve, holdMs));
      const releasedMs = nowMs();
      await release(held);
      grants.push([askedMs, grantedMs, releasedMs]);
    }
    return grants;
  };
  return { workers: await Promise.all(Array.from({ length: workers }, worker)) };
}
