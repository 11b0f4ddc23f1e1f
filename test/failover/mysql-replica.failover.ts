import { onTestFinished, test } from "vitest";
import { expectThroughFailovers } from "./harness.js";
import { MysqlServers, PRODUCT } from "./mysql-servers.js";

test(`${PRODUCT}, GTID replica: two may hold for a moment, and the tokens tell them apart`, async () => {
  const servers = await MysqlServers.start();
  onTestFinished(() => servers.stop());
  await expectThroughFailovers({
    server: await servers.version(),
    setup: "GTID replica promoted, last commits lost",
    promised: { overlaps: "possible" },
    backend: servers.backend(),
    failovers: 2,
    prepare: () => servers.addReplica(),
    failOver: (random) => servers.failOverLossily(300 + random() * 1_200),
  });
});

test(`${PRODUCT}, planned switchover: all processes move on to the new primary`, async () => {
  const servers = await MysqlServers.start();
  onTestFinished(() => servers.stop());
  await expectThroughFailovers({
    server: await servers.version(),
    setup: "planned switchover, old sessions stay open",
    promised: { overlaps: "none", leases: "kept" },
    backend: servers.backend(),
    failovers: 2,
    prepare: () => servers.addReplica(),
    failOver: () => servers.switchOver(),
  });
});
