import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect, createLocks } from "locktender";
import { redlock } from "locktender/redlock";
import { runnerImport } from "vite";
import { median, timeMs } from "./bare.mjs";
import { handOff } from "./contend.mjs";
import { startMariadb, startPostgres } from "./databases.mjs";
import { startEtcd } from "./etcd-server.mjs";
import { startRedis } from "./server.mjs";
import { startZooKeeper } from "./zookeeper-server.mjs";

const ROUNDS = 5;
const ROUND_MS = 1_000;
const TASKS = 32;
const HAND_OFFS = 200;

async function startFile() {
  const folder = await mkdtemp(join(tmpdir(), "locktender-bench-"));
  return {
    url: `sqlite:${join(folder, "locks.db")}`,
    stop: () => rm(folder, { recursive: true, force: true }),
  };
}

async function startVoters() {
  const servers = await Promise.all(Array.from({ length: 5 }, startRedis));
  const url = `redlock://${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
  const locks = createLocks(redlock({ url, fresh: true }));
  await locks.mutex("declared").run(() => undefined);
  await locks.close();
  return { url, stop: () => Promise.all(servers.map((server) => server.stop())) };
}

/** Servers with their usual settings. The tests spare themselves the disk, which is part of what is measured here. */
const SERVERS = {
  memory: {
    title: "in memory",
    start: async () => ({ url: "memory:bench", local: true, stop: async () => undefined }),
  },
  sqlite: { start: startFile },
  redis: { start: startRedis },
  redlock: { title: "Redlock, 5 servers", start: startVoters },
  etcd: { start: startEtcd },
  zookeeper: { start: startZooKeeper },
  postgres: { start: startPostgres },
  mysql: { title: "MariaDB", start: startMariadb },
};

async function fromTests(path) {
  const file = fileURLToPath(new URL(`../test/${path}`, import.meta.url));
  return (await runnerImport(file, { configFile: false })).module;
}

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
      const rates = [await rate(server.url, 1), await rate(server.url, TASKS)];
      const handedOff = server.local ? undefined : await handOff(server.url, HAND_OFFS);
      const [cycles, grants] = rates.map((one) => one.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ","));
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

/** Grants a second, by so many tasks of one process: the median of some rounds. */
async function rate(url, tasks) {
  const locks = await connect(url, { ttl: "15s", wait: "60s" });
  const mutex = locks.mutex(["bench", String(tasks)]);
  const rates = [];
  for (let round = -1; round < ROUNDS; round++) {
    let grants = 0;
    const untilMs = performance.now() + ROUND_MS;
    const task = async () => {
      while (performance.now() < untilMs) await mutex.run(() => void grants++);
    };
    const tookMs = await timeMs(() => Promise.all(Array.from({ length: tasks }, task)));
    if (round >= 0) rates.push((grants / tookMs) * 1_000);
  }
  await locks.close();
  return median(rates);
}
