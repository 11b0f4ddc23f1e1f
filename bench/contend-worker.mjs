// Fights for one lock and reports, for each grant, when it was granted and when it was released.
import { connect } from "locktender";

const { url, workers, rounds, holdMs } = JSON.parse(process.argv[2]);
const locks = await connect(url, { wait: "60s" });
const mutex = locks.mutex("hand-off");
const grants = [];

async function worker() {
  for (let round = 0; round < rounds; round++) {
    const askedNs = process.hrtime.bigint();
    const lease = await mutex.acquire();
    const grantedNs = process.hrtime.bigint();
    if (holdMs > 0) await new Promise((resolve) => setTimeout(resolve, holdMs));
    const releasedNs = process.hrtime.bigint();
    await lease.release();
    grants.push([lease.token, askedNs, grantedNs, releasedNs].map(String));
  }
}

await locks.inspect("hand-off");
process.send("ready");
process.once("message", async () => {
  await Promise.all(Array.from({ length: workers }, worker));
  process.send(grants);
  await locks.close();
  process.disconnect();
});
