import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll } from "vitest";

// A machine cannot be put to sleep by a test. What a sleep looks like to a process is that os.uptime() has
// gone on while the monotonic clock has not.

const { uptime } = os;
let sleptMs = 0;

/** For the tests of one file: until they are over, `machineSleeps` is believed. */
export function letMachineSleep(): void {
  beforeAll(() => {
    os.uptime = () => uptime() + sleptMs / 1_000;
    syncBuiltinESMExports();
  });
  afterAll(() => {
    os.uptime = uptime;
    syncBuiltinESMExports();
  });
}

export async function machineSleeps(ms: number): Promise<void> {
  // Falling asleep takes a moment in which the monotonic clock still runs; a timer may be a millisecond early.
  await sleep(10);
  sleptMs += ms;
}
