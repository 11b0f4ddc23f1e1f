import { connect } from "locktender";
import { startFaultProxy } from "locktender/testing";
import { afterAll, describe, test } from "vitest";
import { eventually } from "#lib/testing/suite/bench.js";
import { askMariadb } from "../engines/mysql/server.js";
import { askPostgres } from "../engines/postgres/server.js";
import {
  addresses,
  askRedis,
  type RedisNode,
  startRedisCluster,
  startRedisSentinel,
  startRedisServers,
  startRedisSingle,
} from "../engines/redis/server.js";
import { declareNew } from "../engines/redlock/harness.js";
import { type Stoppable, stopAll } from "../servers/server-process.js";
import { shared } from "../servers/shared.js";
import { hostsOf } from "../support/hosts-of.js";
import { begin, byLibrary, byUrl, HANDED_OVER, type Place, PREFIX, removeFiles, SQLITE } from "./places.js";

/** Places whose server hangs up on a silent client. */
interface Group {
  readonly title: string;
  readonly places: readonly Place[];
  /** Settles when it has done so. */
  hangsUp(): Promise<void>;
}

/** "At once", on a busy machine. */
const AT_ONCE_MS = 2_000;
const USER = `frozen_${process.pid}`;

const servers: Stoppable[] = [];
afterAll(async () => {
  await stopAll(servers);
  await askPostgres(await urlOf("postgres"), `DROP OWNED BY ${USER} CASCADE; DROP USER ${USER}`);
  await askMariadb(await urlOf("mariadb"), `DROP USER ${USER}`);
  await removeFiles();
});

async function urlOf(name: Parameters<typeof shared>[0]): Promise<string> {
  return (await shared(name)).url;
}

const never = async () => {};

/** Redis closes what is idle for a second, but for subscriptions: those are closed by hand. */
async function byRedis(
  title: string,
  url: string,
  nodes: readonly RedisNode[],
  engine: "redis" | "redlock" = "redis",
): Promise<Group> {
  for (const { port } of nodes) await askRedis(port, "CONFIG", "SET", "timeout", 1);
  const hangsUp = async () => {
    for (const { port } of nodes) {
      await askRedis(port, "CLIENT", "KILL", "TYPE", "pubsub");
      const none = async () => !String(await askRedis(port, "CLIENT", "LIST")).includes("name=locktender");
      await eventually("Redis has hung up", 10_000, none);
    }
  };
  return { title, places: byLibrary(title, engine, url), hangsUp };
}

async function everyRedis(): Promise<readonly Group[]> {
  const [single, sentinel, cluster, voters] = await Promise.all([
    startRedisSingle(),
    startRedisSentinel(),
    startRedisCluster(),
    startRedisServers(3),
  ]);
  servers.push(single, sentinel, cluster, voters);
  await declareNew(voters.ports, PREFIX, 60_000);
  return Promise.all([
    byRedis("Redis", single.url, [single.node]),
    byRedis("Redis behind Sentinel", sentinel.url, [sentinel.master]),
    byRedis("a Redis Cluster", cluster.url, cluster.nodes),
    byRedis("Redlock", `redlock://${addresses(voters.nodes)}`, voters.nodes, "redlock"),
  ]);
}

function byPlace(place: Place, hangsUp: () => Promise<void> = never): Group {
  return { title: place.title, places: [place], hangsUp };
}

/** etcd never hangs up by itself, but what is in between may. */
async function byEtcd(): Promise<Group> {
  const [target] = hostsOf(await urlOf("etcd"));
  if (target === undefined) throw new Error("no server");
  const proxy = await startFaultProxy({ target });
  servers.push({ stop: () => proxy.close() });
  return byPlace(byUrl("etcd", `etcd://${proxy.host}:${proxy.port}`), async () => proxy.dropAll());
}

async function byPostgres(): Promise<Group> {
  const url = await urlOf("postgres");
  const { pathname } = new URL(url);
  await askPostgres(
    url,
    `CREATE USER ${USER}; ALTER USER ${USER} SET idle_session_timeout = '1s';
     GRANT CREATE ON DATABASE ${pathname.slice(1)} TO ${USER}`,
  );
  const ours = () => askPostgres(url, `SELECT 1 FROM pg_stat_activity WHERE usename = '${USER}'`);
  const none = async () => (await ours()).length === 0;
  const place = byUrl("PostgreSQL", url.replace(/\/\/[^@]*@/, `//${USER}@`));
  return byPlace(place, () => eventually("PostgreSQL has hung up", 10_000, none));
}

async function byMariadb(): Promise<Group> {
  const url = await urlOf("mariadb");
  await askMariadb(url, `CREATE USER ${USER}; GRANT ALL ON *.* TO ${USER}`);
  const ours = () => askMariadb(url, `SELECT id FROM information_schema.processlist WHERE user = '${USER}'`);
  return byPlace(byUrl("MariaDB", url.replace(/\/\/[^@]*@/, `//${USER}@`)), async () => {
    for (const { id } of await ours()) await askMariadb(url, `KILL ${id}`);
    await eventually("MariaDB has hung up", 10_000, async () => (await ours()).length === 0);
  });
}

const groups: readonly Group[] = [
  byPlace(SQLITE),
  ...(await everyRedis()),
  await byEtcd(),
  // It ends the connection together with the session.
  byPlace(byUrl("ZooKeeper", await urlOf("zookeeper"))),
  await byPostgres(),
  await byMariadb(),
];

/**
 * It takes a lock and keeps it, and another one waits, so that all connections are there. When it has not run for a
 * second, it looks at its lock, and then takes another: in a timer, before anything that came meanwhile is read.
 */
const FUNCTION = `
  const lease = await locks.mutex("held-" + process.pid).acquire();
  lease.signal.addEventListener("abort", () => console.log("lost: " + lease.signal.reason.loss));
  ${HANDED_OVER}
  let lastRun = performance.now();
  const timer = setInterval(async () => {
    const now = performance.now();
    const isThawed = now - lastRun > 1_000;
    lastRun = now;
    if (!isThawed) return;
    clearInterval(timer);
    console.log("held: " + lease.held);
    const { ran } = await mutex.tryRun(() => {});
    console.log("ran: " + ran + ", " + (performance.now() - now < ${AT_ONCE_MS} ? "at once" : "late"));
  }, 50);
  console.log("ready");`;

describe.concurrent.each(groups)("$title: a process that is frozen and thawed", ({ places, hangsUp }) => {
  test("knows that its lease is lost, takes a lock at once, and ends without close()", async ({
    expect,
    onTestFinished,
  }) => {
    const url = places[0]?.url ?? "";
    const others = await connect(url, url.startsWith("sqlite:") ? {} : { prefix: PREFIX });
    onTestFinished(() => others.close());
    const programs = places.map((place) => begin(place, FUNCTION));
    await Promise.all(programs.map((program) => program.printed("ready")));
    for (const program of programs) program.kill("SIGSTOP");
    await hangsUp();
    for (const { pid } of programs) {
      const free = async () => (await others.inspect(`held-${pid}`)).holders.length === 0;
      await eventually("the lease has run out", 20_000, free);
    }
    for (const program of programs) program.kill("SIGCONT");
    for (const [index, program] of programs.entries()) {
      const title = places[index]?.title;
      const { out, ...ended } = await program.ended;
      expect({ title, ...ended }).toMatchObject({ title, code: 0, signal: null, err: "" });
      expect(out.trim().split("\n").sort(), title).toEqual([
        "held: false",
        expect.stringMatching(/^lost: (paused|session)$/),
        "ran: true, at once",
        "ready",
      ]);
    }
  });
});
