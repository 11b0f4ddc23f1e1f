import { spawnSync } from "node:child_process";
import { startGroup } from "./contenders/group.mjs";
import { installPeers, peerVersions } from "./contenders/install.mjs";
import { besideBusyCore } from "./lib/busy-core.mjs";
import { describeRun } from "./report/run.mjs";
import { startMariadb, startPostgres } from "./servers/databases.mjs";
import { startEtcd } from "./servers/etcd.mjs";
import { startQuorum } from "./servers/quorum.mjs";
import { startRedis } from "./servers/redis.mjs";
import { startZooKeeper } from "./servers/zookeeper.mjs";
import { CONTENDED, measureContended, PROCESSES, sweep } from "./workloads/contended.mjs";
import { measureCurator } from "./workloads/curator.mjs";
import { measureTasks, TASKS } from "./workloads/tasks.mjs";
import { measureUncontended, UNCONTENDED } from "./workloads/uncontended.mjs";
import { measureIdleWaiters, measureManyWaiters } from "./workloads/waiters.mjs";

/** How long each slice of a round takes. */
const FULL = {
  warmUp: { cycles: 20_000, ms: 5_000 },
  rounds: 7,
  freeMs: 500,
  keyMs: 1_500,
  tasksMs: 1_000,
  idleMs: 15_000,
  delaysMs: [1, 2, 5, 10, 20, 50],
};
const QUICK = {
  warmUp: { cycles: 3_000, ms: 500 },
  rounds: 3,
  freeMs: 100,
  keyMs: 150,
  tasksMs: 150,
  idleMs: 5_200,
  delaysMs: [2, 10],
};

const LIBRARIES = ["bare", "locktender", "redlock", "redis-semaphore", "verrou"];
const ENGINES = {
  etcd: ["etcd", startEtcd],
  postgres: ["PostgreSQL", startPostgres],
  mariadb: ["MariaDB", startMariadb],
  redlock: ["Redlock, 5 servers", startQuorum],
  zookeeper: ["ZooKeeper", startZooKeeper],
};

/** Everything that has a bar. The result is what is written as JSON: see report/run.mjs. */
export async function measurePeers({ quick, progress }) {
  const settings = quick ? QUICK : FULL;
  const result = { ...(await describeRun({ quick, settings })), workloads: [] };
  result.versions.peers = await peerVersions();
  const add = (id, measured) => result.workloads.push({ id, state: "at rest", ...measured });
  const onRound = (part) => (detail) => progress.show(part, detail);

  progress.show("installing the other libraries");
  const peers = await installPeers();
  await onRedis({ settings, peers, quick, add, onRound, versions: result.versions });
  for (const [id, [title, start]] of Object.entries(ENGINES)) {
    progress.show(`starting ${title}`);
    await onEngine({ id, title, start, settings, add, onRound, versions: result.versions });
  }
  progress.end();
  return result;
}

async function onRedis({ settings, peers, quick, add, onRound, versions }) {
  const { warmUp, rounds, freeMs, keyMs, delaysMs, idleMs } = settings;
  const server = await startRedis();
  versions.redis = await server.version();
  const groups = {};
  const start = async (name, spec, processes) => {
    onRound("warming up")(name);
    groups[name] = await startGroup({ peers, ...spec }, processes, warmUp);
  };
  try {
    await start("memory", { library: "locktender", url: "memory:bench" }, 1);
    for (const library of LIBRARIES) await start(library, { library, url: server.url }, PROCESSES);
    const bestDelaysMs = {};
    for (const [id, { title }] of Object.entries(CONTENDED)) {
      const options = { groups, server, ms: keyMs / 2, delaysMs, onRound: onRound(`${title}: delays`) };
      bestDelaysMs[id] = await sweep(id, options);
    }
    const all = async (state) => {
      for (const [id, { title }] of Object.entries(UNCONTENDED)) {
        const options = { groups, server, ms: freeMs, rounds, onRound: onRound(`${title}, ${state}`) };
        add(id, { state, ...(await measureUncontended(id, options)) });
      }
      for (const [id, { title }] of Object.entries(CONTENDED)) {
        const options = {
          groups,
          server,
          ms: keyMs,
          rounds,
          warmUp: quick ? 0 : 1,
          bestDelaysMs: bestDelaysMs[id],
        };
        const measured = await measureContended(id, { ...options, onRound: onRound(`${title}, ${state}`) });
        add(id, { state, ...measured });
      }
    };
    await all("at rest");
    if (!quick) await besideBusyCore(() => all("one core busy"));
    for (const group of Object.values(groups)) await group.stop();
    const [idle, many] = ["1,000 idle waiters", "10,000 waiters beside 10"];
    const waiting = await measureIdleWaiters(server, { ms: idleMs, onRound: onRound(idle) });
    add("idle-waiters", { title: idle, contenders: waiting });
    const beside = await measureManyWaiters(server, { rounds, onRound: onRound(many) });
    add("many-waiters", { title: many, contenders: beside });
  } finally {
    for (const group of Object.values(groups)) await group.stop();
    await server.stop();
  }
}

async function onEngine({ id, title, start, settings, add, onRound, versions }) {
  const { tasksMs: ms, rounds, warmUp } = settings;
  const server = await start();
  try {
    if (server.version) versions[id] = await server.version();
    const what = `${TASKS} tasks of one process on one lock, ${title}`;
    const measured = await measureTasks(server.url, { ms, rounds, warmUp, onRound: onRound(what) });
    add(`tasks-${id}`, { title: what, contenders: measured });
    if (id !== "zookeeper") return;
    const beside = "ZooKeeper, beside Curator";
    if (spawnSync("javac", ["-version"]).status !== 0) {
      const absent = { title: `${beside}: no Java here`, unsupported: ["curator"], contenders: {} };
      for (const id of ["curator-alone", "curator-together"]) add(id, absent);
      return;
    }
    versions.java = javaVersion();
    const { alone, together } = await measureCurator(server, {
      ms,
      rounds,
      warmUp,
      onRound: onRound(beside),
    });
    add("curator-alone", { title: `${beside}, one after the other`, contenders: alone });
    add("curator-together", { title: `${beside}, ${TASKS} on one lock`, contenders: together });
  } finally {
    await server.stop();
  }
}

function javaVersion() {
  return /"([^"]+)"/.exec(spawnSync("java", ["-version"], { encoding: "utf8" }).stderr)?.[1];
}
