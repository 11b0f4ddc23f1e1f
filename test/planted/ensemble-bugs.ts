import type { Bug } from "./bug.js";

const ETCD = "test/engines/etcd/conformance.test.ts";
const ETCD_FAULTS = "test/engines/etcd/faults.test.ts";
const ZOOKEEPER = "test/engines/zookeeper/conformance.test.ts";
const ZOOKEEPER_FAULTS = "test/engines/zookeeper/faults.test.ts";

const NODE = "backends/redlock/lua.generated.js";
const CLAIM = "backends/redlock/claim.js";

export const ENSEMBLE_BUGS: readonly Bug[] = [
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
    byChance: true,
  },
  {
    name: "etcd: a claim of unknown fate not called off",
    edits: [
      {
        file: "backends/etcd/claim.js",
        find: "if (this.doubtful)\n            await this.session.cancelPending();",
        replace: "",
      },
    ],
    caughtBy: [ETCD, "scenario S9: a claim delivered long after its caller left"],
    // A busy machine may lose the session meanwhile, and then nothing can be delivered late.
    byChance: true,
  },
  {
    name: "etcd: no look at the queue when a watch stands",
    edits: [{ file: "backends/etcd/watcher.js", find: "void this.#look();", replace: "" }],
    caughtBy: [ETCD, "a connection that the server dropped"],
    // It may be watched again before the holder has left.
    byChance: true,
  },
  {
    name: "etcd: a failed release tried again within its minHold",
    edits: [
      {
        file: "backends/session-queue/claims.js",
        find: "Math.max(pauseMs ?? 0, restMs)",
        replace: "pauseMs ?? 0",
      },
    ],
    caughtBy: [ETCD, "minHold: a release in an outage lets no waiter in earlier"],
  },
  {
    name: "etcd: a failed removal at the end of minHold not tried again",
    edits: [
      {
        file: "backends/session-queue/claims.js",
        find: "void this.remove(claim).catch(() => this.#tryAgain(claim, true))",
        replace: "void this.remove(claim).catch(() => this.forget(claim))",
      },
    ],
    caughtBy: [
      "test/engines/etcd/sessions.test.ts",
      "a release at the end of minHold that fails is tried again",
    ],
  },
  {
    name: "etcd: a claim is removed once more after its removal",
    edits: [
      { file: "backends/session-queue/claims.js", find: "claim.removal ??=", replace: "claim.removal =" },
    ],
    caughtBy: [
      "test/engines/etcd/late-requests.test.ts",
      "the removal is carried out, and its answer is lost",
    ],
  },
  {
    name: "ZooKeeper: a release within minHold that fails is forgotten",
    edits: [
      {
        file: "backends/session-queue/claims.js",
        find: "if (pauseMs === undefined && claim.unwanted)",
        replace: "if (pauseMs === undefined)",
      },
    ],
    caughtBy: ["test/engines/zookeeper/conformance.test.ts", "minHold: a release in a long outage"],
  },
  {
    name: "ZooKeeper: a session kept by reads",
    edits: [
      { file: "backends/zookeeper/wire.js", find: "if (pending.request.writes)", replace: "if (true)" },
      {
        file: "backends/zookeeper/session.js",
        find: "const written = await this.client.send(setData(this.#path, NOTHING))",
        replace: "const written = await this.client.send(getData(this.#path, false))",
      },
    ],
    caughtBy: [ZOOKEEPER_FAULTS, "the client's server is cut off from the leader, and its pings lie"],
    needsRoot: true,
  },
  {
    name: "ZooKeeper: numbers believed that are used up",
    edits: [
      { file: "backends/zookeeper/queue-view.js", find: "numbersAreUsedUp(claims) ?", replace: "false ?" },
    ],
    caughtBy: ["test/engines/zookeeper/sequence.test.ts", "when the numbers of a name are used up"],
  },
  {
    name: "ZooKeeper: the node of a lost reply not looked for",
    edits: [
      {
        file: "backends/zookeeper/claim.js",
        find: "queue.find(({ id }) => id === claim.id)",
        replace: "undefined",
      },
    ],
    caughtBy: [ZOOKEEPER_FAULTS, "scenario S13: the reply to a create is lost"],
  },
  {
    name: "ZooKeeper: the sequence number as token",
    edits: [
      {
        file: "backends/zookeeper/claim.js",
        find: "claim.ticket = created.stat.czxid;",
        replace: "claim.ticket = BigInt(created.path.slice(-10)) + 1n;",
      },
    ],
    caughtBy: ["test/engines/zookeeper/access.test.ts", "a name whose node has vanished meanwhile"],
  },
  {
    name: "ZooKeeper: no waiter notified of a deleted node",
    edits: [
      {
        file: "backends/zookeeper/queue-view.js",
        find: "if (deleted)\n                notify();",
        replace: "if (deleted)\n                return;",
      },
    ],
    caughtBy: [ZOOKEEPER, "a release lets the next one in long before any poll"],
  },
  {
    name: "etcd: no watch tells that a sticky claim is wanted, and no renewal does",
    edits: [
      { file: "backends/etcd/sticky.js", find: "onWanted();", replace: "return;" },
      {
        file: "backends/etcd/driver.js",
        find: "renewalOf(claim, ahead, remainingMs, wanted)",
        replace: "renewalOf(claim, ahead, remainingMs)",
      },
    ],
    caughtBy: [ETCD, "another process that waits gets an idle claim soon"],
  },
  {
    name: "ZooKeeper: no watch tells that a sticky claim is wanted, and no renewal does",
    edits: [
      {
        file: "backends/zookeeper/sticky.js",
        find: "this.look().then((wanted) => wanted && this.#onWanted()",
        replace: "this.look().then(() => undefined",
      },
      {
        file: "backends/zookeeper/driver.js",
        find: "renewalOf(claim, ahead, remainingMs, wanted)",
        replace: "renewalOf(claim, ahead, remainingMs)",
      },
    ],
    caughtBy: [ZOOKEEPER, "another process that waits gets an idle claim soon"],
  },
  {
    name: "etcd: renewals do not say that a sticky claim is wanted",
    edits: [
      { file: "backends/session-queue/backend.js", find: "return wanted ?", replace: "return false ?" },
    ],
    caughtBy: [ETCD, "with all notifications lost, a renewal says that others wait"],
  },
  {
    name: "ZooKeeper: a try that is refused tells no sticky holder",
    edits: [
      {
        file: "backends/session-queue/backend.js",
        find: "if (waiters === 0 && holder?.sticky)",
        replace: "if (false)",
      },
    ],
    caughtBy: [ZOOKEEPER, "a try of another process is refused, and the idle claim is gone soon after"],
  },
  {
    name: "ZooKeeper: the watches of a sticky claim are not set again on a new connection",
    edits: [{ file: "backends/zookeeper/driver.js", find: "claim.wantedWatch?.lookAgain();", replace: ";" }],
    caughtBy: [
      "test/engines/zookeeper/sticky.test.ts",
      "a claim that comes while the connection is broken is told when it stands again",
    ],
  },
  {
    name: "a node that lost its memory votes at once",
    edits: [{ file: NODE, find: "if now < votesAt then return", replace: "if false then return" }],
    caughtBy: [
      "test/engines/redlock/memory-loss.test.ts",
      "empty: it does not vote while anything that it forgot",
    ],
  },
  {
    name: "a node that came back with older data votes at once",
    edits: [
      { file: NODE, find: "if not since or ARGV[4] then", replace: "if not since then" },
      { file: NODE, find: "if known and known ~= runId then", replace: "if false then" },
    ],
    caughtBy: ["test/engines/redlock/memory-loss.test.ts", "with older data: it knows since when"],
  },
  {
    name: "a token that only a minority of counters has reached",
    edits: [
      {
        file: CLAIM,
        find: "const needed = majority - countReached(tickets, ticket);",
        replace: "const needed = 0; votes.clear();",
      },
    ],
    caughtBy: ["test/engines/redlock/clock.test.ts", "tokens grow also when a majority had to count"],
  },
  {
    name: "half of the votes taken for a majority",
    edits: [
      {
        file: "backends/redlock/majority.js",
        find: "Math.floor(nodes / 2) + 1",
        replace: "Math.floor(nodes / 2)",
      },
    ],
    caughtBy: ["test/engines/redlock/memory-loss.test.ts", "with all of its data: its scripts are gone"],
  },
  {
    name: "votes of an attempt that failed are kept",
    edits: [{ file: CLAIM, find: "withdraw(node);", replace: "wanted();", times: 3 }],
    caughtBy: ["test/engines/redlock/memory-loss.test.ts", "a client that a majority refuses keeps no vote"],
  },
];
