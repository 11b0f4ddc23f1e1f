import type { Bug } from "./bug.js";

const LUA = "backends/redis/lua.generated.js";
const SINGLE = "test/engines/redis/conformance-single-ioredis.test.ts";
const CLUSTER = "test/engines/redis/conformance-cluster-ioredis.test.ts";
const MEMORY = "test/engines/memory/conformance.test.ts";

export const BUGS: readonly Bug[] = [
  {
    name: "release without owner check",
    edits: [
      {
        file: LUA,
        find: "if onlyId == ARGV[1] and not ARGV[3] then",
        replace: "if onlyId and not ARGV[3] then",
      },
      {
        file: LUA,
        find: "if not claim or (claim.left and not ending) then",
        replace: "claim = claim or l.only if not claim or (claim.left and not ending) then",
      },
    ],
    caughtBy: [SINGLE, "scenario S4: a late release"],
  },
  {
    name: "deadline counted from the reply",
    edits: [
      { file: "core/claim-state.js", find: "sent.atMs + remainingMs", replace: "nowMs() + remainingMs" },
    ],
    caughtBy: [SINGLE, "a lease is trusted from the sending"],
  },
  {
    name: "no second ask after subscribing",
    edits: [
      { file: "clients/redis/notifications.js", find: "of [...this.#watched.values()])", replace: "of [])" },
    ],
    caughtBy: [SINGLE, "a connection that the server dropped"],
    byChance: true,
  },
  {
    name: "a late notification of an older ticket believed",
    edits: [
      {
        file: "core/claim-state.js",
        find: "notification !== undefined && notification.ticket === this.ticket",
        replace: "notification !== undefined",
      },
    ],
    caughtBy: ["test/core/notifications.test.ts", "a notification for an older ticket"],
  },
  {
    name: "renewal that re-creates",
    edits: [
      {
        file: LUA,
        find: "answers[index] = gone(l, id)",
        replace:
          "makeRoom(l, id) l.last, l.edge, l.sum, l.capacity = ticket, ticket, 1, 1 store(l, id, readClaim(string.format('%d %d %d 0 %d 1 1 0 0 c [{},0]', ticket, now, now, now + ttl))) changed = true answers[index] = { 'held', ttl }",
      },
    ],
    caughtBy: [SINGLE, "a lease that the engine has forgotten is not made again"],
  },
  {
    name: "client time in the queue",
    edits: [
      {
        file: LUA,
        find: "local NOW = TIME[1] * 1000000 + TIME[2]",
        replace: "local NOW = tonumber(ARGV[#ARGV])",
      },
      {
        file: "backends/redis/index.js",
        find: "runScript(client, script, keys, args)",
        replace: "runScript(client, script, keys, [...args, String(Date.now() * 1000)])",
      },
    ],
    caughtBy: [SINGLE, "scenario S12"],
  },
  {
    name: "counter deleted with the lock",
    edits: [
      {
        file: LUA,
        find: "redis.pcall('SET', KEYS[1], ticket, 'PX', keptMs)",
        replace: "{ err = 'forgotten' }",
      },
    ],
    caughtBy: ["test/engines/redis/tickets.test.ts", "the counter of an idle name is kept"],
  },
  {
    name: "tickets without the floor of the server's time",
    edits: [
      {
        file: LUA,
        find: "if now > last and now - ARGV[3] >= 0 then",
        replace: "if last == 0 or now > last then now = last + 1",
      },
    ],
    caughtBy: [SINGLE, "tokens keep growing when the engine has forgotten everything"],
  },
  {
    name: "a timer's flag instead of a clock comparison",
    edits: [
      {
        file: "core/held-claim.js",
        find: "this.lost === undefined && this.#superseded === undefined && this.claim.trusted()",
        replace: "this.lost === undefined && this.#superseded === undefined",
      },
    ],
    caughtBy: [MEMORY, "scenario S5: after a blocked event loop"],
  },
  {
    name: "a cancelled claim not withdrawn",
    edits: [
      {
        file: "core/asking.js",
        find: "return this.#connection.withdraw(this.claim, this.#isAsking ? this.#inFlight : undefined);",
        replace: "this.#connection.leave(this.claim); return Promise.resolve();",
      },
    ],
    caughtBy: [MEMORY, "scenario S9: a claim that is cancelled in mid-flight"],
  },
  {
    name: "a failed renewal taken for a loss at once",
    edits: [
      {
        file: "core/renewer.js",
        find: "const live = claims.filter((claim) => this.#claims.has(claim));",
        replace:
          "for (const claim of claims) claim.expired(false); const live = claims.filter((claim) => this.#claims.has(claim));",
      },
    ],
    caughtBy: [SINGLE, "an outage shorter than the ttl"],
  },
  {
    name: "a watchdog that dies of its first error",
    edits: [
      {
        file: "core/renewer.js",
        find: "const live = claims.filter((claim) => this.#claims.has(claim));",
        replace: "const live = []; for (const claim of claims) this.#claims.delete(claim);",
      },
    ],
    caughtBy: [SINGLE, "an outage shorter than the ttl"],
  },
  {
    name: "a loss that the holder is not told of",
    edits: [{ file: "core/held-claim.js", find: "this.#controller?.abort(this.lost);", replace: "" }],
    caughtBy: [MEMORY, "scenario S3: the holder of a fixed lease is told"],
  },
  {
    name: "a holder told only when others may already be in",
    edits: [
      { file: "core/claim-state.js", find: "- driftMs(Math.max(this.ttlMs, remainingMs))", replace: "+ 150" },
    ],
    caughtBy: [SINGLE, "scenario S3: the holder of a fixed lease is told"],
  },
  {
    name: "a try that leaves a place in the queue",
    edits: [
      { file: LUA, find: "room == 'try'", replace: "room == 'never'" },
      { file: LUA, find: "l.waiting >= tonumber(room)", replace: "l.waiting >= (tonumber(room) or 9)" },
    ],
    caughtBy: [SINGLE, "trying neither waits nor leaves a place"],
  },
  {
    name: "dead waiters never skipped",
    edits: [
      {
        file: LUA,
        find: "for _, member in ipairs(dead) do",
        replace: "for _, member in ipairs({}) do",
      },
    ],
    caughtBy: [SINGLE, "scenario S8"],
  },
  {
    name: "a waiter's place that is never refreshed",
    edits: [
      {
        file: "core/claim-state.js",
        find: "this.ticket === undefined || (this.held && this.fixed)",
        replace: "!this.held || this.fixed",
      },
    ],
    caughtBy: [SINGLE, "a waiter keeps its place for much longer than its ttl"],
  },
  {
    name: "a newcomer that fits overtakes the waiters",
    edits: [{ file: LUA, find: "local admitted = l.waiting == 0 and (", replace: "local admitted = (" }],
    caughtBy: ["test/model/model.test.ts", "redis by ioredis lets no claim overtake"],
  },
  {
    name: "a retry that makes a second claim",
    edits: [
      {
        file: LUA,
        find: "if claim and not claim.left and (ticket == 0 or ticket == claim.ticket) then",
        replace: "if claim and ticket == claim.ticket then",
      },
    ],
    caughtBy: [SINGLE, "scenario S13: when the reply to a claim is lost"],
  },
  {
    name: "a fixed lease renewed by the watchdog",
    edits: [
      { file: "core/claim-state.js", find: "(this.held && this.fixed)", replace: "false" },
      {
        file: LUA,
        find: "if not claim.fixed or claim.granted == 0 then claim.deadline",
        replace: "if true then claim.deadline",
      },
    ],
    caughtBy: [SINGLE, "a fixed lease is never renewed"],
  },
  {
    name: "minHold forgotten at the release",
    edits: [{ file: LUA, find: "claim.granted > 0 and heldUntil > now then", replace: "false then" }],
    caughtBy: [SINGLE, "minHold: the next holder is not let in earlier"],
  },
  {
    name: "reentrancy by a flag in the call chain instead of the live lease",
    edits: [
      {
        file: "core/reentrancy.js",
        find: "lease.heldClaim.connection === connection && lease.held",
        replace: "lease.heldClaim.connection === connection",
      },
      { file: "core/reentrancy.js", find: "!first.lease.held", replace: "false" },
    ],
    caughtBy: [MEMORY, "work that outlives its lease is a stranger"],
  },
  {
    name: "close releases callbacks that still run",
    edits: [{ file: "locks/close.js", find: "grant.running === 0", replace: "grant.running >= 0" }],
    caughtBy: [MEMORY, "a callback that does not stop is not released"],
  },
  {
    name: "run that hides the loss of its lease",
    edits: [
      {
        file: "locks/lockable.js",
        find: "overran || lease.holds.some((heldClaim) => heldClaim.lost !== undefined)",
        replace: "false",
      },
      { file: "locks/lockable.js", find: "if (!wasHeld)", replace: "if (false)" },
    ],
    caughtBy: [MEMORY, "run rejects with the loss"],
  },
  {
    name: "keys of one lock on different cluster slots",
    edits: [
      {
        file: "clients/redis/client.js",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a piece of the compiled code
        find: "`${prefix}:{${encodeName(name)}}`",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a piece of the compiled code
        replace: "`${prefix}:${encodeName(name)}`",
      },
    ],
    caughtBy: [CLUSTER, "every grant has a greater token"],
  },
  {
    name: "a change of a cell that is carried out again",
    edits: [{ file: LUA, find: "if done then return done end", replace: "" }],
    caughtBy: ["test/engines/redis/cells.test.ts", "is carried out once"],
  },
  {
    name: "a version that no cell has taken for any",
    edits: [{ file: "locks/cell.js", find: "ifVersion > 0n && ", replace: "" }],
    caughtBy: [SINGLE, "a write that expects another version"],
  },
  {
    name: "a late result that replaces the stored one",
    edits: [{ file: "locks/once.js", find: "text, ifVersion, keepMs", replace: "text, keepMs" }],
    caughtBy: [MEMORY, "a caller that is late gets the result"],
  },
  {
    name: "a result that is stored in one attempt",
    edits: [{ file: "locks/once.js", find: "if (!isOutage(error) || ", replace: "if (true || " }],
    caughtBy: [SINGLE, "an engine that is away for a moment"],
  },
  {
    name: "a leader that gives up with its seat",
    edits: [{ file: "locks/election.js", find: "if (ended)", replace: "if (true)" }],
    caughtBy: [MEMORY, "a leader that lost its seat is told"],
  },
  {
    name: "the number of a resize read from the note",
    edits: [
      {
        file: "core/acquire-request.js",
        find: "first.resize : undefined",
        replace: "Number(/^resized to (.+) permits$/.exec(first.note)?.[1] ?? NaN) || undefined : undefined",
      },
    ],
    caughtBy: [MEMORY, "a note or a reason that reads like that of resize changes no number"],
  },
  {
    name: "a head that cannot be read taken for an idle lock",
    edits: [{ file: LUA, find: "tonumber(text) or error(", replace: "tonumber(text) or 0 or error(" }],
    caughtBy: ["test/engines/redis/unreadable-head.test.ts", `never a loss: "x"`],
  },
];
