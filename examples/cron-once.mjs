// Five servers fire the same job at the same time, by clocks that differ a little. One of them runs it.
// The job takes a millisecond, so the lock would be free again when the last server asks: `minHold` keeps
// all other servers out for longer than the clocks can differ.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "locktender";

const folder = await mkdtemp(join(tmpdir(), "locktender-"));
const url = process.argv[2] ?? `sqlite:${join(folder, "locks.db")}`;
let runs = 0;

async function server(instance, clockIsLateMs) {
  const locks = await connect(url, { owner: { service: "reports", instance } });
  await sleep(clockIsLateMs);
  const nightly = await locks.mutex("cron:nightly-report").tryRun({ minHold: "2s" }, async () => {
    runs++;
    await sleep(1);
  });
  const blocker = nightly.ran ? undefined : nightly.blockers[0]?.owner.instance;
  console.log(nightly.ran ? `${instance} runs the job` : `${instance} leaves it to ${blocker}`);
  await locks.close();
}

await Promise.all([0, 30, 60, 200, 400].map((lateMs, index) => server(`server-${index + 1}`, lateMs)));
await rm(folder, { recursive: true });
console.log(`The job ran ${runs} time(s).`);
process.exitCode = runs === 1 ? 0 : 1;
