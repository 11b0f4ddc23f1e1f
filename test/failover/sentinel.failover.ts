import { onTestFinished, test } from "vitest";
import { expectThroughFailovers } from "./harness.js";
import { SentinelServers } from "./sentinel-servers.js";

/**
 * A failover takes 2 to 3 s here, and holds outlast it. With `replicas`, nothing is granted before a replica follows
 * the new primary, and the sentinels take their time for that.
 */
const LONG = { ttlMs: 9_000, holdMs: 7_000, names: 20, backWithinMs: 40_000 };

/** Without and with the option; the page promises no more of it than that the window is narrower. */
const OPTIONS = [
  ["", {}],
  [", replicas: 1", { replicas: 1 }],
] as const;

test.each(OPTIONS)(
  "Sentinel, last writes lost%s: two may hold for a moment, and the tokens tell them apart",
  async (which, options) => {
    const servers = await SentinelServers.start();
    onTestFinished(() => servers.stop());
    await expectThroughFailovers({
      server: await servers.version(),
      setup: `Sentinel, last writes lost${which}`,
      promised: { overlaps: "possible" },
      backend: servers.backend(options),
      failovers: 3,
      ...LONG,
      prepare: () => servers.repair(),
      failOver: (random) => servers.failOverLossily(300 + random() * 1_200),
    });
  },
);

test.each(OPTIONS)(
  "Sentinel, old primary still serves its clients%s: they are told when it is demoted",
  async (which, options) => {
    const servers = await SentinelServers.start();
    onTestFinished(() => servers.stop());
    let demotedAfterMs = 0;
    await expectThroughFailovers({
      server: await servers.version(),
      setup: `Sentinel, old primary still serves its clients${which}`,
      // A waiter of the new primary has its ticket since it came; the old one gives later tickets at once meanwhile.
      promised: { overlaps: "possible", tokenRegressions: "possible" },
      // Patient processes stay with the old primary while it stands still; the others ask the sentinels again.
      backend: (process) => servers.backend({ ...options, timeout: process % 2 === 0 ? "10s" : "1s" }),
      failovers: 2,
      ...LONG,
      prepare: () => servers.repair(),
      failOver: async () => {
        const primary = await servers.requirePrimary();
        primary.process.pause();
        await servers.failedOverFrom(primary);
        primary.process.resume();
        const resumedAtMs = performance.now();
        await servers.demoted(primary);
        demotedAfterMs = Math.max(demotedAfterMs, Math.round(performance.now() - resumedAtMs));
      },
      also: () => ({ "ms until demoted": demotedAfterMs }),
    });
  },
);
