import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { handOff } from "../contenders/group.mjs";
import { fromTests } from "../lib/from-tests.mjs";
import { median } from "../lib/stats.mjs";
import { short } from "../report/table.mjs";
import { startMariadb, startPostgres } from "../servers/databases.mjs";
import { startEtcd } from "../servers/etcd.mjs";
import { startQuorum } from "../servers/quorum.mjs";
import { startRedis } from "../servers/redis.mjs";
import { startZooKeeper } from "../servers/zookeeper.mjs";
import { measureTasks } from "../workloads/tasks.mjs";

const ROUNDS = 5;
const ROUND_MS = 1_000;
const HAND_OFFS = 200;

async function startFile() {
  const folder = await mkdtemp(join(tmpdir(), "locktender-bench-"));
  return {
    url: `sqlite:${join(folder, "locks.db")}`,
    stop: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Servers with their usual settings. The tests spare themselves the disk, which is part of what is measured here. */
const SERVERS = {
  memory: {
    title: "in memory",
    start: async () => ({ url: "memory:bench", local: true, stop: async () => undefined }),
  },
  sqlite: { start: startFile },
  redis: { start: startRedis },
  redlock: { title: "Redlock, 5 servers", start: startQuorum },
  etcd: { start: startEtcd },
  zookeeper: { start: startZooKeeper },
  postgres: { start: startPostgres },
  mysql: { title: "MariaDB", start: startMariadb },
};

/** Those of the one list of engines. An engine that has no server here is measured on the first one of its tests. */
async function* engines() {
  const { ENGINES } = await fromTests("engines.ts");
  for (const [name, { title, servers }] of Object.entries(ENGINES)) {
    const own = SERVERS[name];
    if (own !== undefined) yield { title, ...own };
    else {
      const { default: shared } = await fromTests(`engines/${name}/servers.ts`);
      yield { title, start: shared.start[servers[0]] };
    }
  }
}

/** All engines, one after the other on the same machine, each on servers of its own with their usual settings. */
export async function* measure() {
  yield "| engine | one after the other | 32 tasks on one lock | hand-off between processes |";
  yield "| --- | --- | --- | --- |";
  for await (const { title, start } of engines()) {
    const server = await start();
    try {
      const { alone, together } = await measureTasks(server.url, { ms: ROUND_MS, rounds: ROUNDS });
      const handedOff = server.local ? undefined : await handOff(server.url, HAND_OFFS);
      const [cycles, grants] = [alone, together].map(({ rate }) => short(median(rate)));
      const took =
        handedOff === undefined
          ? ""
          : `p50 ${handedOff.p50.toFixed(1)} ms, p99 ${handedOff.p99.toFixed(1)} ms`;
      yield `| ${title} | ${cycles}/s | ${grants}/s | ${took} |`;
    } finally {
      await server.stop();
    }
  }
}
