import type { Bug } from "./bug.js";

const FLOOR = "test/engines/redis/token-floor.test.ts";

/** What takes tokens back when clocks differ. */
export const TOKEN_BUGS: readonly Bug[] = [
  {
    name: "claims without a floor for their tickets",
    edits: [{ file: "backends/redis/index.js", find: "first ? this.#floor.lowest() : 0", replace: "0" }],
    caughtBy: [FLOOR, "the tokens of six connections under load only grow"],
  },
  {
    name: "a floor that is the highest ticket seen, and no more",
    edits: [{ file: "engine-kit/queue.js", find: "const US_PER_MS = 999;", replace: "const US_PER_MS = 0;" }],
    caughtBy: [FLOOR, "a name that was forgotten before gets a greater token, by ioredis"],
  },
  {
    name: "a floor that may be ahead by any time",
    edits: [
      {
        file: "backends/redis/lua.generated.js",
        find: "if floor > now + FLOOR_BOUND_US then floor = 0 end",
        replace: "",
      },
    ],
    caughtBy: [FLOOR, "a clock that is set back by more than an hour is what counts"],
  },
  {
    name: "a ticket that is ahead of the clock forgotten as soon as others",
    edits: [
      {
        file: "backends/redis/lua.generated.js",
        find: "if ahead > 0 then keptMs = keptMs + math.ceil(ahead / 1000) end",
        replace: "",
      },
    ],
    caughtBy: [FLOOR, "its counter is kept until the clock has passed it"],
  },
];
