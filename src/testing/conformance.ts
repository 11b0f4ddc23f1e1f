import { startInterval, stopTimer } from "../core/timer.js";
import type { Harness, Runner } from "./harness.js";
import type { MutexAdapter } from "./mutex-adapter.js";
import { all } from "./suite/all.js";
import { Bench, type Case, type Need } from "./suite/bench.js";
import { cells } from "./suite/cells.js";
import { closing } from "./suite/closing.js";
import { crashes } from "./suite/crashes.js";
import { deadlocks } from "./suite/deadlocks.js";
import { election } from "./suite/election.js";
import { exclusion } from "./suite/exclusion.js";
import { expiry } from "./suite/expiry.js";
import { handOff } from "./suite/hand-off.js";
import { leftovers } from "./suite/leftovers.js";
import { loss } from "./suite/loss.js";
import { network } from "./suite/network.js";
import { once } from "./suite/once.js";
import { options } from "./suite/options.js";
import { outages } from "./suite/outages.js";
import { queue } from "./suite/queue.js";
import { readWrite } from "./suite/read-write.js";
import { reentrancy } from "./suite/reentrancy.js";
import { seeing } from "./suite/seeing.js";
import { semaphore } from "./suite/semaphore.js";
import { sticky } from "./suite/sticky.js";
import { web } from "./suite/web.js";
import { webOrder } from "./suite/web-order.js";

type Suite = Readonly<Record<string, readonly Case[]>>;

/** What a lock does by itself. */
const LOCK: Suite = {
  "mutual exclusion": exclusion,
  "the queue": queue,
  reentrancy,
  options,
  "seeing and forcing": seeing,
  closing,
};

const MUTEX: Suite = {
  ...LOCK,
  "expiry, renewal and loss": loss,
  "crashes and pauses of processes": crashes,
  "faults of the network": network,
  outages,
};

/** What an engine does with claims, whichever kind of lock makes them. */
const CLAIMS: Suite = {
  "hand-off inside a process": handOff,
  "sticky claims": sticky,
  "expired claims": expiry,
  "leftovers and crowds": leftovers,
};

const KINDS: Suite = {
  "read and write": readWrite,
  semaphores: semaphore,
  "multi-lock": all,
  election,
  cells,
  once,
  "web locks": [...web, ...webOrder],
  "deadlock detection": deadlocks,
};

/**
 * What has to be as good as a mutex. Both need an order, which a mutex does not. The write side makes the very claims
 * that a mutex makes, so what becomes of these in a fault is not shown again.
 */
const DISGUISES: Readonly<Record<MutexAdapter, Suite>> = { "write side": LOCK, "last permit": MUTEX };

/**
 * Every promise that locks make, as named tests. An engine runs them with a few lines, on a real server;
 * what it cannot run carries its reason.
 */
export function conformance(runner: Runner, harness: Harness): void {
  const subjects = (suite: Suite, more: readonly Need[] = [], as?: MutexAdapter) => {
    for (const [name, cases] of Object.entries(suite)) {
      const needing = cases.map((one) => ({ ...one, needs: [...more, ...(one.needs ?? [])] }));
      runner.describe(as === undefined ? name : `${name}, by the ${as}`, () => {
        // Those that may run side by side stand side by side, or they would not.
        for (const one of needing) if (!one.waits) register(runner, harness, one, as);
        for (const one of needing) if (one.waits) register(runner, harness, one, as);
      });
    }
  };
  runner.describe(`conformance: ${harness.engine}`, () => {
    subjects(MUTEX);
    subjects(CLAIMS);
    subjects(KINDS, ["kinds"]);
    for (const as of Object.keys(DISGUISES) as MutexAdapter[])
      subjects(DISGUISES[as], ["kinds", "queue", "disguises"], as);
  });
}

function register(
  runner: Runner,
  harness: Harness,
  { name, needs = [], notOfPermits, waits, run }: Case,
  as?: MutexAdapter,
): void {
  const lacks = needs.map((need) => reasonWithout(harness, need));
  const missing = [...lacks, as === "last permit" ? notOfPermits : undefined].find(
    (reason) => reason !== undefined,
  );
  if (missing !== undefined) {
    runner.skip(name, missing);
    return;
  }
  const body = async () => {
    const bench = new Bench(harness, as);
    // A connection that waits for nothing keeps no process running, and not every test runner does.
    const keepsRunning = startInterval(() => {}, 1_000);
    try {
      await run(bench);
    } finally {
      stopTimer(keepsRunning);
      await bench.end();
    }
  };
  if (waits && runner.together !== undefined) runner.together(name, body);
  else runner.test(name, body);
}

function reasonWithout(harness: Harness, need: Need): string | undefined {
  if (need === "expiry") return harness.keepsAlive ? reasonWithout(harness, "network") : undefined;
  if (need === "leftovers" && harness.leftovers === undefined)
    return "the harness does not count what is stored";
  const given = harness[need];
  return given !== undefined && "skip" in given ? given.skip : undefined;
}
