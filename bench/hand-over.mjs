import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { percentile } from "./bare.mjs";

const WORKER = fileURLToPath(new URL("./hand-over-worker.mjs", import.meta.url));

/** Two processes that fight for one lock: how long it takes from the release in one to the grant in the other. */
export async function handOver(url, rounds) {
  const children = [0, 1].map(() => fork(WORKER, [JSON.stringify({ url, rounds })]));
  const message = (child) => new Promise((resolve) => child.once("message", resolve));
  await Promise.all(children.map(message));
  const reports = children.map(message);
  for (const child of children) child.send("go");
  const grants = (await Promise.all(reports))
    .flatMap((report, process) => report.map((fields) => ({ process, times: fields.map(BigInt) })))
    .sort((a, b) => (a.times[0] < b.times[0] ? -1 : 1));
  const tookMs = [];
  for (let index = 1; index < grants.length; index++) {
    const [before, after] = [grants[index - 1], grants[index]];
    if (before.process !== after.process && after.times[1] < before.times[3])
      tookMs.push(Number(after.times[2] - before.times[3]) / 1e6);
  }
  const [p50, p99] = [0.5, 0.99].map((share) => percentile(tookMs, share).toFixed(2));
  return `2 processes: ${tookMs.length} hand-offs, p50 ${p50} ms, p99 ${p99} ms`;
}
