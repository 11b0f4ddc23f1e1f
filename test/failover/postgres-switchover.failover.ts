import { onTestFinished, test } from "vitest";
import { expectThroughFailovers } from "./harness.js";
import { PostgresServers } from "./postgres-servers.js";

test("PostgreSQL, planned switchover: old sessions stay open and read-only, and all processes move on", async () => {
  const servers = await PostgresServers.start();
  onTestFinished(() => servers.stop());
  await expectThroughFailovers({
    setup: "planned switchover, old sessions stay open",
    promised: { overlaps: "none", leases: "kept" },
    server: await servers.version(),
    backend: servers.backend(),
    failovers: 2,
    prepare: () => servers.addStandby(),
    failOver: async () => {
      await servers.retirePrimary();
      await servers.promote();
    },
  });
});
