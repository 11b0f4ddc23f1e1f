import { expect, test } from "vitest";
import { type Profile, runModel } from "./hand-off/run.js";
import { install } from "./hand-off/world.js";

install();

/** How many times as many runs as every day, and the seed of the first one. */
const TIMES = Number(process.env.HAND_OFF_TIMES ?? 1);
const FROM = Number(process.env.HAND_OFF_SEED ?? 1);

const QUIET: Profile = { faults: false, stopsAnywhere: false, queueing: true, sticky: 0 };
const FAULTS: Profile = { ...QUIET, faults: true, sticky: 0.1 };

const PROFILES: readonly (readonly [string, Profile, number])[] = [
  ["while all goes well", QUIET, 150],
  ["while messages are lost and processes stop", FAULTS, 250],
  ["while processes stop anywhere", { ...FAULTS, stopsAnywhere: true }, 150],
  ["with sticky mutexes while all goes well", { ...QUIET, sticky: 0.8 }, 150],
  ["with sticky mutexes, while messages are lost and processes stop", { ...FAULTS, sticky: 0.8 }, 150],
  ["without a queue at the server", { ...FAULTS, queueing: false, sticky: 0 }, 100],
  ["with more tasks than a claim has numbers", { ...QUIET, tasks: 1_400 }, 1],
];

test.each(PROFILES)("the rules of the hand-off hold %s", { timeout: 3_600_000 }, async (_, profile, runs) => {
  const count = Math.ceil(runs * TIMES);
  let [handOffs, idle] = [0, 0];
  for (let seed = FROM; seed < FROM + count; seed++) {
    const seen = await runModel(seed, profile);
    handOffs += seen.handOffs;
    idle += seen.idle;
  }
  expect(handOffs).toBeGreaterThan(3 * count);
  if (profile.sticky > 0.5) expect(idle).toBeGreaterThan(count);
});
