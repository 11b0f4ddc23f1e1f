import type { Bug } from "./bug.js";

const LUA = "backends/redis/lua.generated.js";
const MEMORY = "test/engines/memory/conformance.test.ts";
const SINGLE = "test/engines/redis/conformance-single-ioredis.test.ts";
const STICKY = "test/engines/redis/sticky.test.ts";
const HOLDER = "core/shared-claim.js";

export const STICKY_BUGS: readonly Bug[] = [
  {
    name: "sticky: an idle claim that is wanted is not given back",
    edits: [
      { file: HOLDER, find: "if (this.isIdle)\n            void this.release();", replace: "if (false) ;" },
    ],
    caughtBy: [MEMORY, "another process that waits gets an idle claim soon"],
  },
  {
    name: "sticky: no budget from when another process wants it",
    edits: [{ file: HOLDER, find: "this.budgetEndsAtMs = nowMs() + this.#budgetMs;", replace: "" }],
    caughtBy: [MEMORY, "while a task holds it, others wait for that task"],
  },
  {
    name: "sticky: a claim that had to wait is kept",
    edits: [
      {
        file: HOLDER,
        find: "this.#mayStay = tellsFromStart && !claim.wanted;",
        replace: "this.#mayStay = true;",
      },
    ],
    caughtBy: [MEMORY, "a claim that had to wait does not stay"],
  },
  {
    name: "sticky: what was told before the answer is forgotten",
    edits: [
      { file: "core/claim-state.js", find: "this.wanted = ticket === this.#wantedTicket;", replace: "" },
    ],
    caughtBy: [
      "test/core/hand-off.test.ts",
      "a sticky claim that is wanted before its own answer has come: for this ticket",
    ],
  },
  {
    name: "sticky: closing leaves the idle claim behind",
    edits: [{ file: "core/connection.js", find: "this.localNames.releaseAllIdle();", replace: "" }],
    caughtBy: [MEMORY, "close gives an idle claim back"],
  },
  {
    name: "sticky: a timer that lets the program end with its idle claim",
    edits: [
      {
        file: HOLDER,
        find: "Math.min(stickyMs, this.claim.ttlMs));",
        replace: "Math.min(stickyMs, this.claim.ttlMs)).unref();",
      },
    ],
    caughtBy: [SINGLE, "a program that ends by itself gives its idle claim back"],
  },
  {
    name: "Redis, sticky: its holder is told of no waiter, neither at once nor by its renewal",
    edits: [
      { file: LUA, find: "if l.waiting == 0 then tellSticky(l, refusal) end", replace: "" },
      { file: LUA, find: "l.waiting > 0 and isSticky(claim) and 'wanted' or nil", replace: "nil" },
    ],
    caughtBy: [SINGLE, "another process that waits gets an idle claim soon"],
  },
  {
    name: "Redis, sticky: renewals do not say that others wait",
    edits: [{ file: LUA, find: "l.waiting > 0 and isSticky(claim) and 'wanted' or nil", replace: "nil" }],
    caughtBy: [SINGLE, "with all notifications lost, a renewal says that others wait"],
  },
  {
    name: "Redis, sticky: what a refused claim has to tell is not sent",
    edits: [
      {
        file: LUA,
        find: "if changed then save(l, retentionMs) else sendNotifications() end",
        replace: "if changed then save(l, retentionMs) end",
      },
    ],
    caughtBy: [SINGLE, "a try of another process is refused, and the idle claim is gone soon after"],
  },
  {
    name: "Redis, sticky: once there were several claims, no refused one is told",
    edits: [{ file: LUA, find: "if not id and refused then", replace: "if false then" }],
    caughtBy: [STICKY, "sticky claims, by ioredis once there were several claims"],
  },
  {
    name: "Redis, sticky: a note is taken for what the claim says of itself",
    edits: [{ file: LUA, find: `'\\"sticky\\":true', 1, true)`, replace: "'sticky', 1, true)" }],
    caughtBy: [STICKY, "sticky claims, by ioredis a claim is not sticky because its note reads like one"],
  },
  {
    name: "Redis, sticky: a claim is kept though its process does not listen",
    edits: [
      {
        file: "backends/redis/index.js",
        find: "request.sticky === true && this.#notifications.stand",
        replace: "request.sticky === true",
      },
    ],
    caughtBy: [STICKY, "sticky claims, by ioredis where the server lets no process listen"],
  },
  {
    name: "Redis: the bound on dead claims counts for each lock of a renewal",
    edits: [{ file: LUA, find: "dropped + batch, mayForget - batch", replace: "dropped + batch, mayForget" }],
    caughtBy: ["test/engines/redis/many-dead.test.ts", "one renewal of many locks forgets no more"],
  },
];
