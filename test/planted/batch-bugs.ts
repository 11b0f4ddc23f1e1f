import type { Bug } from "./bug.js";

const LUA = "backends/redis/lua.generated.js";
const BATCHER = "backends/redis/batcher.js";
const BATCHING = "test/engines/redis/batching.test.ts";
const ONE_NAME = "test/engines/redis/one-name-per-call.test.ts";

/** What can go wrong where claims and releases of one turn go to Redis as one call. */
export const BATCH_BUGS: readonly Bug[] = [
  {
    name: "a batch that is carried out in another order",
    edits: [
      {
        file: BATCHER,
        find: "const { asked, sinceMs } = turn;",
        replace:
          "const { sinceMs } = turn; const asked = turn.asked.sort((a, b) => (a.element.letter < b.element.letter ? -1 : 1));",
      },
    ],
    caughtBy: [BATCHING, "by ioredis they are carried out in the order"],
  },
  {
    name: "a batch whose answers are given out in another order",
    edits: [{ file: BATCHER, find: "answers[index];", replace: "answers[asked.length - 1 - index];" }],
    caughtBy: [BATCHING, "by ioredis they are carried out in the order"],
  },
  {
    name: "a batch in which an element has the key of a queue of the one before it",
    edits: [
      {
        file: LUA,
        find: "ownKeys[1], ownKeys[2], ownKeys[3] = keys[lastKey + 1],",
        replace: "ownKeys[1], ownKeys[2], ownKeys[3] = keys[lastKey + 1], ownKeys[2] or",
      },
    ],
    caughtBy: [BATCHING, "by ioredis the notifications of one that failed"],
  },
  {
    name: "a failed batch that is sent again as a whole",
    edits: [{ file: BATCHER, find: "if (isSent)", replace: "if (isSent && asked.length === 0)" }],
    caughtBy: [BATCHING, "by ioredis where the answer is lost"],
  },
  {
    name: "a failed batch of which also the releases are sent again",
    edits: [{ file: BATCHER, find: "if (one.element.repeatable)", replace: "if (one.element)" }],
    caughtBy: [BATCHING, "by ioredis where the answer is lost"],
  },
  {
    name: "notifications that a failed element leaves behind are sent by the next one",
    edits: [
      { file: LUA, find: "local notifications = {}", replace: "" },
      {
        file: LUA,
        find: "local mayForget = MOST_DEAD",
        replace: "local mayForget, notifications = MOST_DEAD, {}",
      },
    ],
    caughtBy: [BATCHING, "by ioredis the notifications of one that failed"],
  },
  {
    name: "new claims behind a release are taken though the memory is full",
    edits: [
      { file: LUA, find: "if type(refused) == 'table' and refused.err then", replace: "if false then" },
    ],
    caughtBy: [BATCHING, "by ioredis with full memory"],
  },
  {
    name: "one name outside of the user's rights refuses all names of its batch",
    edits: [{ file: BATCHER, find: "&& !NEVER_RAN.test(message)", replace: "" }],
    caughtBy: [BATCHING, "by ioredis where one name is forbidden"],
  },
  {
    name: "the time for an answer counts from when the batch is sent",
    edits: [
      {
        file: BATCHER,
        find: "this.#connection.use(work, true, sinceMs)",
        replace: "this.#connection.use(work, true)",
      },
    ],
    caughtBy: [BATCHING, "by ioredis without an answer each of them fails in time"],
  },
  {
    name: "a server that refuses several slots is asked for them again and again",
    edits: [
      {
        file: "clients/redis/connection.js",
        find: "return this.#refusesSlots ||",
        replace: "return",
      },
    ],
    caughtBy: [ONE_NAME, "by ioredis behind a plain URL"],
  },
];
