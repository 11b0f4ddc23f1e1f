import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { percentile } from "./bare.mjs";

const WORKER = fileURLToPath(new URL("./contend-worker.mjs", import.meta.url));

/** Processes that fight for one lock. `onReady` is called when all of them are connected. */
export async function contend({ url, processes, workers, rounds, holdMs, onReady }) {
  const options = JSON.stringify({ url, workers, rounds, holdMs });
  const children = Array.from({ length: processes }, () => fork(WORKER, [options]));
  const message = (child) => new Promise((resolve) => child.once("message", resolve));
  await Promise.all(children.map(message));
  await onReady?.();
  const start = performance.now();
  const reports = children.map(message);
  for (const child of children) child.send("go");
  const perProcess = await Promise.all(reports);
  const tookMs = performance.now() - start;
  const grants = perProcess
    .flatMap((report, process) => report.map((fields) => ({ process, times: fields.map(BigInt) })))
    .sort((a, b) => (a.times[0] < b.times[0] ? -1 : 1));
  const waitsMs = grants.map(({ times }) => Number(times[2] - times[1]) / 1e6);
  return { grants, tookMs, waitsMs };
}

/** From the release in one process to the grant in the next, of its waiters. */
function handOffsMs(grants) {
  const handOffs = [];
  for (let index = 1; index < grants.length; index++) {
    const [before, after] = [grants[index - 1], grants[index]];
    const waited = after.times[1] < before.times[3];
    if (before.process !== after.process && waited)
      handOffs.push(Number(after.times[2] - before.times[3]) / 1e6);
  }
  return handOffs;
}

/** Two processes that take turns. */
export async function handOff(url, rounds) {
  const { grants } = await contend({ url, processes: 2, workers: 1, rounds, holdMs: 1 });
  const handOffs = handOffsMs(grants);
  const [p50, p99] = [0.5, 0.99].map((share) => percentile(handOffs, share));
  return { count: handOffs.length, p50, p99 };
}

export async function describeHandOff(url, rounds) {
  const { count, p50, p99 } = await handOff(url, rounds);
  return `2 processes: ${count} hand-offs, p50 ${p50.toFixed(2)} ms, p99 ${p99.toFixed(2)} ms`;
}
