import { onTestFinished, test } from "vitest";
import { expectThroughFailovers, type FailoverPlan } from "./harness.js";
import { PostgresServers } from "./postgres-servers.js";

/** The primary is killed while its last commits are still on their way to the standby, which is then promoted. */
async function expectThroughCrashes(
  { setup, promised }: Pick<FailoverPlan, "setup" | "promised">,
  { synchronous, holdBackMs }: { readonly synchronous: boolean; readonly holdBackMs: number },
): Promise<void> {
  const servers = await PostgresServers.start();
  onTestFinished(() => servers.stop());
  await expectThroughFailovers({
    server: await servers.version(),
    setup,
    promised,
    backend: servers.backend(),
    failovers: 3,
    prepare: () => servers.addStandby({ synchronous }),
    failOver: (random) => servers.failOverLossily(300 + random() * holdBackMs),
  });
}

test("PostgreSQL, asynchronous standby: two may hold for a moment, and the tokens tell them apart", () =>
  expectThroughCrashes(
    { setup: "asynchronous standby promoted, last commits lost", promised: { overlaps: "possible" } },
    { synchronous: false, holdBackMs: 1_200 },
  ));

test("PostgreSQL, synchronous standby: one holder at a time, and no lease is lost", () =>
  expectThroughCrashes(
    {
      setup: "standby with synchronous_commit = remote_apply promoted",
      promised: { overlaps: "none", leases: "kept" },
    },
    // Requests time out after 2 s, and are stopped on the server: what they have written there must not count.
    { synchronous: true, holdBackMs: 4_000 },
  ));
