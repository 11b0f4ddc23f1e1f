import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { percentile } from "./bare.mjs";

const WORKER = fileURLToPath(new URL("./hand-off-worker.mjs", import.meta.url));

async function contend({ processes, workers, rounds, holdMs, url, client }) {
  const options = JSON.stringify({ url, workers, rounds, holdMs });
  const children = Array.from({ length: processes }, () => fork(WORKER, [options]));
  const message = (child) => new Promise((resolve) => child.once("message", resolve));
  await Promise.all(children.map(message));
  await client.config("RESETSTAT");
  const start = performance.now();
  const reports = children.map(message);
  for (const child of children) child.send("go");
  const perProcess = await Promise.all(reports);
  const tookMs = performance.now() - start;
  const requests = Number(/cmdstat_evalsha:calls=(\d+)/.exec(await client.info("commandstats"))?.[1] ?? 0);
  const grants = perProcess
    .flatMap((report, process) => report.map((fields) => ({ process, times: fields.map(BigInt) })))
    .sort((a, b) => (a.times[0] < b.times[0] ? -1 : 1));
  return { grants, tookMs, requests };
}

/** From the release in one process to the grant in the next. */
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

export async function* measure(server) {
  const quiet = await contend({ ...server, processes: 2, workers: 1, rounds: 1_000, holdMs: 1 });
  const handOffs = handOffsMs(quiet.grants);
  yield `2 processes: ${handOffs.length} hand-offs, p50 ${percentile(handOffs, 0.5).toFixed(2)} ms, p99 ${percentile(handOffs, 0.99).toFixed(2)} ms`;
  for (const holdMs of [0, 2]) {
    const { grants, tookMs, requests } = await contend({
      ...server,
      processes: 4,
      workers: 8,
      rounds: holdMs ? 20 : 200,
      holdMs,
    });
    const waits = grants.map(({ times }) => Number(times[2] - times[1]) / 1e6);
    yield `4 processes x 8 workers on one key, ${holdMs} ms hold: ${((grants.length / tookMs) * 1_000).toFixed(0)} grants/s, p99 wait ${percentile(waits, 0.99).toFixed(0)} ms, longest ${Math.max(...waits).toFixed(0)} ms, ${(requests / grants.length).toFixed(2)} requests per grant`;
  }
}
