import type { Bug } from "./bug.js";

const LUA = "backends/redis/lua.generated.js";
const SINGLE = "test/engines/redis/conformance-single-ioredis.test.ts";
const MEMORY = "test/engines/memory/conformance.test.ts";
const POSTGRES = "test/engines/postgres/conformance.test.ts";
const LEFTOVERS = "nothing is stored of names that are not used any more";

/** What brings an expired claim back, or leaves it behind. */
export const EXPIRY_BUGS: readonly Bug[] = [
  {
    name: "memory: a renewal that does not look whether its claim has expired",
    edits: [
      {
        file: "backends/memory/index.js",
        find: "this.#at(name, (queue, atMs) => queue.renew(id, ticket, ttlMs, atMs) ?? this.#gone(id))",
        replace: "this.#store.queues.get(name)?.renew(id, ticket, ttlMs, nowMs()) ?? this.#gone(id)",
      },
    ],
    caughtBy: [MEMORY, "revives no expired claim while another claim waits"],
  },
  {
    name: "Redis: a renewal that does not look whether its claim has expired",
    edits: [
      {
        file: LUA,
        find: "local changed = dropDead(l, now)\\n  local claim = findLive(l, id, now)",
        replace: "local changed = false\\n  local claim = find(l, id)",
      },
    ],
    caughtBy: [SINGLE, "revives no expired claim, though no request has touched its name"],
  },
  {
    name: "Redis: the same, in a long sequence of requests",
    edits: [
      {
        file: LUA,
        find: "local changed = dropDead(l, now)\\n  local claim = findLive(l, id, now)",
        replace: "local changed = false\\n  local claim = find(l, id)",
      },
    ],
    caughtBy: ["test/model/model.test.ts", "redis by ioredis answers as memory does"],
    // On a busy machine the model compares less: a short claim may be gone before the next request.
    byChance: true,
  },
  {
    name: "Redis: a renewal that forgets the dead, but not the waiters among them",
    edits: [
      {
        file: LUA,
        find: "local changed = dropDead(l, now)\\n  local claim = findLive(l, id, now)",
        replace:
          "local claim = find(l, id) local changed = false if not claim or isGranted(l, claim) then changed = dropDead(l, now) claim = findLive(l, id, now) end",
      },
    ],
    caughtBy: [SINGLE, "revives no expired claim of a waiter"],
  },
  {
    name: "Redis: a renewal that counts from its sending, by the clock of its process",
    edits: [
      {
        file: LUA,
        find: "local now = NOW\\nlocal answers = {}",
        replace: "local now = math.min(NOW, tonumber(ARGV[#ARGV]))\\nlocal answers = {}",
      },
      {
        file: "backends/redis/index.js",
        find: "const all = [this.#retentionMs, ...args];",
        replace:
          "const all = [this.#retentionMs, ...args, String(Math.floor((performance.timeOrigin + performance.now()) * 1000))];",
      },
    ],
    caughtBy: [SINGLE, "a renewal delivered after the claim has expired revives nothing"],
  },
  {
    name: "Redis: a late renewal that takes the lock back from the next holder",
    edits: [
      {
        file: LUA,
        find: "answers[index] = gone(l, id)",
        replace:
          "if l.onlyId then local taken = l.only taken.ticket = ticket l.onlyId = id store(l, id, taken) changed = true end answers[index] = gone(l, id)",
      },
    ],
    caughtBy: [SINGLE, "a renewal delivered after the next holder was let in revives nothing"],
  },
  {
    name: "PostgreSQL: a renewal that does not look whether its claim has expired",
    edits: [
      {
        file: "backends/sql/routines.generated.js",
        find: "END\\nWHERE name = :name AND ticket = :ticket AND id = :id AND has_left = 0 AND deadline_us > :now_us",
        replace: "END\\nWHERE name = :name AND ticket = :ticket AND id = :id AND has_left = 0",
      },
    ],
    caughtBy: [POSTGRES, "revives no expired claim, though no request has touched its name"],
  },
  {
    name: "memory: names whose claims have expired are kept until they are asked for",
    edits: [
      {
        file: "backends/memory/index.js",
        find: "        this.#forgetOne();\n        return this.#at(request.name",
        replace: "        return this.#at(request.name",
      },
    ],
    caughtBy: [MEMORY, LEFTOVERS],
  },
  {
    name: "Redis: an uncontended claim that the server never forgets",
    edits: [
      {
        file: LUA,
        find: "redis.call('SET', KEYS[1], 'f ' .. ticket .. ' ' .. ARGV[1], 'PX', ARGV[4])",
        replace: "redis.call('SET', KEYS[1], 'f ' .. ticket .. ' ' .. ARGV[1])",
      },
    ],
    caughtBy: [SINGLE, LEFTOVERS],
  },
  {
    name: "PostgreSQL: idle names that are never forgotten",
    edits: [
      {
        file: "backends/sql/sweeper.js",
        find: "if (++this.#uses < USES_PER_VISIT &&",
        replace: "if (true ||",
      },
    ],
    caughtBy: [POSTGRES, LEFTOVERS],
  },
  {
    name: "a claim that is watched after its end",
    edits: [{ file: "core/connection.js", find: "claim.unwatch?.();", replace: "" }],
    caughtBy: [MEMORY, "a crowd: every waiter is served"],
  },
];
