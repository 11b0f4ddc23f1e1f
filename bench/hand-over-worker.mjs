// Fights for one lock of a database and reports, for each grant, when it was granted and when it was released.
import { connect } from "locktender";

const { url, rounds } = JSON.parse(process.argv[2]);
const locks = await connect(url, { wait: "60s" });
const mutex = locks.mutex("hand-over");
process.send("ready");
process.once("message", async () => {
  const grants = [];
  for (let round = 0; round < rounds; round++) {
    const askedNs = process.hrtime.bigint();
    const lease = await mutex.acquire();
    const grantedNs = process.hrtime.bigint();
    await new Promise((resolve) => setTimeout(resolve, 1));
    const releasedNs = process.hrtime.bigint();
    await lease.release();
    grants.push([lease.token, askedNs, grantedNs, releasedNs].map(String));
  }
  process.send(grants);
  await locks.close();
  process.disconnect();
});
