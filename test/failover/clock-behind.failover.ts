import { onTestFinished, test } from "vitest";
import { makeWrongClock } from "../servers/clock.js";
import type { Stoppable } from "../servers/server-process.js";
import { expectThroughFailovers, type FailoverPlan } from "./harness.js";
import { MysqlServers, PRODUCT } from "./mysql-servers.js";
import { PostgresServers } from "./postgres-servers.js";
import { SentinelServers } from "./sentinel-servers.js";

const BEHIND_MS = 10_000;

type Servers = Stoppable & Pick<PostgresServers, "backend" | "version" | "failOverLossily">;

async function clockBehind() {
  const clock = await makeWrongClock();
  onTestFinished(() => clock.remove());
  await clock.set(-BEHIND_MS);
  return clock;
}

/** The last writes are lost, and with them the tickets that the new primary must not give out again. */
async function expectGrowingTokens(
  setup: string,
  servers: Servers,
  plan: Pick<FailoverPlan, "prepare"> & Pick<FailoverPlan, "ttlMs" | "holdMs" | "names">,
): Promise<void> {
  onTestFinished(() => servers.stop());
  await expectThroughFailovers({
    setup,
    promised: { overlaps: "possible" },
    server: await servers.version(),
    backend: servers.backend(),
    failovers: 2,
    // What was held before ends by the new clock, so up to 10 s later.
    backWithinMs: 40_000,
    ...plan,
    failOver: (random) => servers.failOverLossily(300 + random() * 1_200),
  });
}

test("PostgreSQL, the new primary's clock 10 s behind: tokens grow", async () => {
  const { env } = await clockBehind();
  const servers = await PostgresServers.start();
  await expectGrowingTokens("standby promoted, clock 10 s behind", servers, {
    prepare: () => servers.addStandby({ env }),
  });
});

test(`${PRODUCT}, the new primary's clock 10 s behind: tokens grow`, async () => {
  const { env } = await clockBehind();
  const servers = await MysqlServers.start();
  await expectGrowingTokens("replica promoted, clock 10 s behind", servers, {
    prepare: () => servers.addReplica({ env }),
  });
});

test("Sentinel, the new primary's clock 10 s behind: tokens grow", async () => {
  const { env } = await clockBehind();
  const servers = await SentinelServers.start({ replicaEnv: env });
  await expectGrowingTokens("Sentinel, replica promoted, clock 10 s behind", servers, {
    prepare: () => servers.repair(),
    ttlMs: 9_000,
    holdMs: 5_000,
    names: 20,
  });
});
