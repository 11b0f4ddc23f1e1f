/** One change to the compiled code. The text must be there exactly once, or as often as is said. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly times?: number;
}

/** A bug as somebody might well write it, and the test whose business it is to notice. */
export interface Bug {
  readonly name: string;
  readonly edits: readonly Edit[];
  /** The test file, and a part of the test's name. */
  readonly caughtBy: readonly [file: string, test: string];
  /** That test breaks a network of its own. */
  readonly needsRoot?: true;
}

const LUA = "backends/redis/lua.generated.js";
const SINGLE = "test/backends/redis-single-ioredis.test.ts";
const CLUSTER = "test/backends/redis-cluster-ioredis.test.ts";
const MEMORY = "test/backends/memory.test.ts";
const ETCD = "test/backends/etcd.test.ts";
const ETCD_FAULTS = "test/etcd/faults.test.ts";
const ZOOKEEPER = "test/backends/zookeeper.test.ts";
const ZOOKEEPER_FAULTS = "test/zookeeper/faults.test.ts";

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
    edits: [{ file: "core/place.js", find: "sent.atMs + remainingMs", replace: "nowMs() + remainingMs" }],
    caughtBy: [SINGLE, "a lease is trusted from the sending"],
  },
  {
    name: "no second ask after subscribing",
    edits: [{ file: "backends/redis/bell.js", find: "of [...this.#watched.values()])", replace: "of [])" }],
    caughtBy: [SINGLE, "a connection that the server dropped"],
  },
  {
    name: "a late ring of an older ticket believed",
    edits: [
      {
        file: "core/place.js",
        find: "news !== undefined && news.ticket === this.ticket",
        replace: "news !== undefined",
      },
    ],
    caughtBy: ["test/core/rings.test.ts", "a ring for an older ticket"],
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
      { file: LUA, find: "return time[1] * 1000000 + time[2]", replace: "return tonumber(ARGV[#ARGV])" },
      {
        file: LUA,
        find: "local now = time[1] * 1000000 + time[2]",
        replace: "local now = tonumber(ARGV[#ARGV])",
        times: 2,
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
        find: "redis.pcall('SET', KEYS[1], ticket, 'PX', ARGV[2])",
        replace: "{ err = 'forgotten' }",
      },
    ],
    caughtBy: ["test/redis/tickets.test.ts", "the counter of an idle name is kept"],
  },
  {
    name: "tickets without the floor of the server's time",
    edits: [
      { file: LUA, find: "if now > last then", replace: "if last == 0 or now > last then now = last + 1" },
    ],
    caughtBy: [SINGLE, "tokens keep growing when the engine has forgotten everything"],
  },
  {
    name: "a timer's flag instead of a clock comparison",
    edits: [
      {
        file: "core/hold.js",
        find: "this.lost === undefined && this.place.trusted()",
        replace: "this.lost === undefined",
      },
    ],
    caughtBy: [MEMORY, "scenario S5: after a blocked event loop"],
  },
  {
    name: "a cancelled claim not withdrawn",
    edits: [
      {
        file: "core/acquire.js",
        find: "const withdrawal = this.#connection.withdraw(this.#place, this.#inFlight);",
        replace: "const withdrawal = Promise.resolve(); this.#connection.leave(this.#place);",
      },
    ],
    caughtBy: [MEMORY, "scenario S9: a claim that is cancelled in mid-flight"],
  },
  {
    name: "a failed renewal taken for a loss at once",
    edits: [
      {
        file: "core/keeper.js",
        find: 'this.#events.emit({ type: "renew-failed", claims: places.length, error });',
        replace:
          'this.#events.emit({ type: "renew-failed", claims: places.length, error }); for (const place of places) place.listener?.expired(false);',
      },
    ],
    caughtBy: [SINGLE, "an outage shorter than the ttl"],
  },
  {
    name: "a watchdog that dies of its first error",
    edits: [
      {
        file: "core/keeper.js",
        find: "const live = places.filter((place) => this.#places.has(place));",
        replace: "const live = []; for (const place of places) this.#places.delete(place);",
      },
    ],
    caughtBy: [SINGLE, "an outage shorter than the ttl"],
  },
  {
    name: "a loss that nobody is told",
    edits: [{ file: "core/hold.js", find: "this.#controller?.abort(this.lost);", replace: "" }],
    caughtBy: [MEMORY, "scenario S3: the holder of a fixed lease is told"],
  },
  {
    name: "a holder told only when others may already be in",
    edits: [
      { file: "core/place.js", find: "- driftMs(Math.max(this.ttlMs, remainingMs))", replace: "+ 150" },
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
        file: "core/place.js",
        find: "this.ticket === undefined || (this.held && this.fixed)",
        replace: "!this.held || this.fixed",
      },
    ],
    caughtBy: [SINGLE, "a waiter keeps its place for much longer than its ttl"],
  },
  {
    name: "a newcomer that fits overtakes those who wait",
    edits: [{ file: LUA, find: "local admitted = l.waiting == 0 and (", replace: "local admitted = (" }],
    caughtBy: ["test/model/model.test.ts", "redis by ioredis lets nobody overtake"],
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
      { file: "core/place.js", find: "(this.held && this.fixed)", replace: "false" },
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
    caughtBy: [SINGLE, "minHold: nobody else is let in earlier"],
  },
  {
    name: "reentrancy by a flag in the call chain instead of the live lease",
    edits: [
      {
        file: "core/reentry.js",
        find: "lease.hold.connection === connection && lease.held",
        replace: "lease.hold.connection === connection",
      },
      { file: "core/reentry.js", find: "!first.lease.held", replace: "false" },
    ],
    caughtBy: [MEMORY, "work that outlives its lease is a stranger"],
  },
  {
    name: "close releases callbacks that still run",
    edits: [{ file: "locks/close.js", find: "hold.running === 0", replace: "hold.running >= 0" }],
    caughtBy: [MEMORY, "a callback that does not stop is not released"],
  },
  {
    name: "run that hides the loss of its lease",
    edits: [
      { file: "locks/run.js", find: "hold.lost !== undefined || overran", replace: "false" },
      { file: "locks/run.js", find: "if (!stillOurs)", replace: "if (false)" },
    ],
    caughtBy: [MEMORY, "run rejects with the loss"],
  },
  {
    name: "keys of one lock on different cluster slots",
    edits: [
      {
        file: "backends/redis/keys.js",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a piece of the compiled code
        find: "`${prefix}:{${encodeName(name)}}`",
        // biome-ignore lint/suspicious/noTemplateCurlyInString: a piece of the compiled code
        replace: "`${prefix}:${encodeName(name)}`",
      },
    ],
    caughtBy: [CLUSTER, "every grant has a greater token"],
  },
  {
    name: "a database that lets newcomers in whoever is ahead",
    edits: [
      {
        file: "backends/sql/sql.generated.js",
        find: "WHEN :mine = 0 AND :ahead + :weight <= :capacity THEN 'granted'",
        replace: "WHEN :mine = 0 THEN 'granted'",
      },
    ],
    caughtBy: ["test/backends/postgres.test.ts", "one holder at a time among many tasks"],
  },
  {
    name: "a database that gives one ticket to two",
    edits: [
      {
        file: "backends/sql/sql.generated.js",
        find: "SET last_ticket = greatest(last_ticket + 1, @wall)",
        replace: "SET last_ticket = last_ticket",
      },
    ],
    caughtBy: ["test/backends/postgres.test.ts", "waiters are served in the order in which they came"],
  },
  {
    name: "PostgreSQL tells nobody who is let in",
    edits: [
      {
        file: "backends/postgres/sql.generated.js",
        find: "|| ' granted'",
        replace: "|| ' grunted'",
      },
    ],
    caughtBy: ["test/backends/postgres.test.ts", "a release lets the next one in long before any poll"],
  },
  {
    name: "etcd: a keep-alive believed without asking the majority",
    edits: [
      {
        file: "backends/etcd/session.js",
        find: "const { header, count } = await this.rpc.range({ key: this.key, keys_only: true });",
        replace: 'const { header, count } = { header: beat.header, count: "1" };',
      },
    ],
    caughtBy: [ETCD_FAULTS, "a leader that was resumed, and knows nothing of its successor"],
    needsRoot: true,
  },
  {
    name: "etcd: a claim of unknown fate not called off",
    edits: [
      {
        file: "backends/etcd/place.js",
        find: "if (this.doubtful)\n            await this.session.callOff();",
        replace: "",
      },
    ],
    caughtBy: [ETCD, "scenario S9: a claim delivered long after its caller left"],
  },
  {
    name: "etcd: a watch that begins now instead of at the look",
    edits: [
      {
        file: "backends/etcd/watcher.js",
        find: "start_revision: String(from)",
        replace: 'start_revision: "0"',
      },
    ],
    caughtBy: [ETCD, "a connection that the server dropped"],
  },
  {
    name: "ZooKeeper: a session kept by reads",
    edits: [
      { file: "backends/zookeeper/wire.js", find: "if (pending.request.writes)", replace: "if (true)" },
      {
        file: "backends/zookeeper/session.js",
        find: "this.client.send(setData(this.#path, NOTHING))",
        replace: "this.client.send(getData(this.#path, false))",
      },
    ],
    caughtBy: [ZOOKEEPER_FAULTS, "the client's server is cut off from the leader, and its pings lie"],
    needsRoot: true,
  },
  {
    name: "ZooKeeper: numbers believed that are used up",
    edits: [{ file: "backends/zookeeper/line.js", find: "numbersAreUsedUp(claims) ?", replace: "false ?" }],
    caughtBy: ["test/zookeeper/sequence.test.ts", "when the numbers of a name are used up"],
  },
  {
    name: "ZooKeeper: the node of a lost reply not looked for",
    edits: [{ file: "backends/zookeeper/entry.js", find: "id === place.id", replace: "false" }],
    caughtBy: [ZOOKEEPER_FAULTS, "scenario S13: the reply to a create is lost"],
  },
  {
    name: "ZooKeeper: the sequence number as token",
    edits: [
      {
        file: "backends/zookeeper/entry.js",
        find: "place.ticket = created.stat.czxid;",
        replace: "place.ticket = BigInt(created.path.slice(-10)) + 1n;",
      },
    ],
    caughtBy: ["test/zookeeper/access.test.ts", "a name whose node has vanished meanwhile"],
  },
  {
    name: "ZooKeeper: nobody told of a deleted node",
    edits: [
      {
        file: "backends/zookeeper/blockers.js",
        find: "if (deleted)\n                ring();",
        replace: "if (deleted)\n                return;",
      },
    ],
    caughtBy: [ZOOKEEPER, "a release lets the next one in long before any poll"],
  },
];
