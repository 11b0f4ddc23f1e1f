import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type FaultProxy, startFaultProxy } from "locktender/testing";
import { afterAll, describe, expect, test } from "vitest";
import { run } from "../core/program.js";
import { type RedisNode, startRedisCluster, startRedisSentinel } from "../engines/redis/server.js";
import { declareNew } from "../engines/redlock/harness.js";
import type { SharedName } from "../engines.js";
import { freeze, type Stoppable, stopAll } from "../servers/server-process.js";
import { shared } from "../servers/shared.js";
import { hostsOf } from "../support/hosts-of.js";
import { begin, byLibrary, byUrl, HANDED_OVER, type Place, PREFIX } from "./places.js";

/** A request may take two seconds, and giving back what it may have got three times as long. */
const SOON_MS = 15_000;

interface Group {
  readonly title: string;
  readonly places: readonly Place[];
  /** Ways in which their server goes away. */
  readonly ways: readonly { goAway(): unknown; comeBack(): unknown }[];
}

const running: Stoppable[] = [];
afterAll(() => stopAll(running));

/** The server refuses connections, or says nothing. */
async function behindProxies(name: SharedName): Promise<Pick<Group, "ways"> & { readonly url: string }> {
  const proxies: FaultProxy[] = [];
  let { url } = await shared(name);
  for (const { host, port } of hostsOf(url)) {
    const proxy = await startFaultProxy({ target: { host, port } });
    url = url.replace(`${host}:${port}`, `${proxy.host}:${proxy.port}`);
    proxies.push(proxy);
    running.push({ stop: () => proxy.close() });
  }
  const each = (act: (proxy: FaultProxy) => void) => () => proxies.forEach(act);
  const comeBack = each((proxy) => proxy.heal());
  return {
    url,
    ways: [
      { goAway: each((proxy) => proxy.refuse()), comeBack },
      { goAway: each((proxy) => proxy.blackhole("both")), comeBack },
    ],
  };
}

/** The same of servers whose clients would go past any proxy. */
function waysOf(nodes: readonly RedisNode[]): Group["ways"] {
  const each = (act: (process: RedisNode["process"]) => unknown) => () =>
    Promise.all(nodes.map(({ process }) => act(process)));
  return [
    { goAway: each((process) => process.pause()), comeBack: each((process) => process.resume()) },
    { goAway: each((process) => process.kill()), comeBack: () => {} },
  ];
}

async function byRedis(title: string, name: "redis" | "redlock"): Promise<Group> {
  const { url, ways } = await behindProxies(name);
  return { title, places: byLibrary(title, name, url), ways };
}

async function byName(title: string, name: SharedName): Promise<Group> {
  const { url, ways } = await behindProxies(name);
  return { title, places: [byUrl(title, url)], ways };
}

async function everyGroup(): Promise<Group[]> {
  const [sentinel, cluster] = await Promise.all([startRedisSentinel(), startRedisCluster()]);
  running.push(sentinel, cluster);
  const { master, replicas, sentinels } = sentinel;
  const voters = hostsOf((await shared("redlock")).url);
  await declareNew(
    voters.map(({ port }) => port),
    PREFIX,
    60_000,
  );
  return [
    await byRedis("Redis", "redis"),
    {
      title: "Redis behind Sentinel",
      places: byLibrary("Sentinel", "redis", sentinel.url),
      ways: waysOf([...sentinels, master, ...replicas]),
    },
    {
      title: "a Redis Cluster",
      places: byLibrary("Cluster", "redis", cluster.url),
      ways: waysOf(cluster.nodes),
    },
    await byRedis("Redlock", "redlock"),
    await byName("etcd", "etcd"),
    await byName("an etcd ensemble", "etcd-ensemble"),
    await byName("ZooKeeper", "zookeeper"),
    await byName("PostgreSQL", "postgres"),
    await byName("MariaDB", "mariadb"),
  ];
}

/** A port whose queue of connections is full, so that the system drops whatever comes: as of a machine that is gone. */
async function unansweredPort(): Promise<number> {
  const source = `
    const server = require("node:net").createServer();
    server.listen({ host: "127.0.0.1", port: 0, backlog: 1 }, () => console.log(server.address().port));`;
  const child = spawn(process.execPath, ["--eval", source], { stdio: ["ignore", "pipe", "inherit"] });
  running.push({ stop: async () => void child.kill("SIGKILL") });
  const port = Number(String((await once(child.stdout, "data"))[0]));
  freeze(child.pid ?? 0);
  const waiting = Array.from({ length: 4 }, () => connect({ host: "127.0.0.1", port }).on("error", () => {}));
  running.push({ stop: async () => waiting.forEach((socket) => void socket.destroy()) });
  return port;
}

/** It learns that its server is not there, and then it has finished. */
const ASKS = `
  ${HANDED_OVER}
  const alive = setInterval(() => {}, 1_000);
  process.once("SIGUSR2", async () => {
    await locks.mutex("b").tryAcquire().catch((error) => console.log(error.code));
    console.log("done");
    clearInterval(alive);
  });
  console.log("ready");`;

const unanswered = await unansweredPort();

test.concurrent.each([
  ...["redis://HOST", "redis+sentinel://HOST/main", "redis+cluster://HOST", "redlock://HOST,HOST1,HOST2"],
  ...["etcd://HOST", "zookeeper://HOST", "postgres://HOST/db", "mysql://user@HOST/db"],
])("%s drops all packets, and a program that could not connect ends", async (pattern) => {
  const url = pattern.replace(/HOST(\d?)/g, (_, last) => `127.0.0.${Number(last) + 1}:${unanswered}`);
  const { code, signal, out, tookMs } = await run(`
    await connect(${JSON.stringify(url)}).catch((error) => console.log(error.code));`);
  expect({ code, signal, out }).toEqual({ code: 0, signal: null, out: "backend\n" });
  expect(tookMs).toBeLessThan(SOON_MS);
});

describe.concurrent.each(await everyGroup())("$title is away", ({ places, ways }) => {
  test("and a program that has finished ends all the same", async () => {
    for (const { goAway, comeBack } of ways) {
      const programs = places.map((place) => begin(place, ASKS));
      await Promise.all(programs.map((program) => program.printed("ready")));
      await goAway();
      await sleep(300);
      for (const program of programs) program.kill("SIGUSR2");
      for (const [index, program] of programs.entries()) {
        await program.printed("done");
        const doneAt = performance.now();
        const { code, signal, out } = await program.ended;
        const how = { code, signal, out, ended: performance.now() - doneAt < SOON_MS };
        const title = places[index]?.title;
        expect({ title, ...how }).toEqual({
          title,
          code: 0,
          signal: null,
          out: "ready\nbackend\ndone\n",
          ended: true,
        });
      }
      await comeBack();
    }
  });
});
