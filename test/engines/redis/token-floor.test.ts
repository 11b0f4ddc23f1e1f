import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import type { Locks } from "locktender";
import { redis } from "locktender/redis";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { commands, sideBySide } from "../../model/side-by-side.js";
import { makeWrongClock, type WrongClock } from "../../servers/clock.js";
import {
  askRedis,
  type RedisCluster,
  type RedisSentinel,
  type RedisServers,
  startRedisCluster,
  startRedisSentinel,
  startRedisServers,
} from "./server.js";
import { CommandLog, LIBRARIES, type Library, look, nameOn, open } from "./tools.js";

const BEHIND_MS = 10_000;
const HOUR_MS = 3_600_000;
const CONNECTIONS = 6;
const NAMES = Array.from({ length: 30 }, (_, index) => `item:${index}`);
/** More than the floor lags behind the clock: a failover takes longer. */
const LAG_MS = 50;
const CLAIM = {
  weight: WHOLE,
  capacity: WHOLE,
  ttlMs: 60_000,
  fixed: false,
  minHoldMs: 0,
  queue: true,
  owner: { instance: "floor", host: "here", pid: 1 },
  note: "",
};

let clock: WrongClock;
beforeAll(async () => {
  clock = await makeWrongClock();
});
afterAll(() => clock.remove());

/** Takes and releases locks on many connections, and counts tokens that are not greater than those before them. */
class Load {
  readonly #greatest = new Map<string, bigint>();
  #running = true;
  grants = 0;
  regressions = 0;

  constructor(connections: readonly Locks[]) {
    const working = Promise.all(connections.map((locks) => this.#work(locks)));
    onTestFinished(async () => {
      this.#running = false;
      await working;
    });
  }

  async #work(locks: Locks): Promise<void> {
    while (this.#running) {
      const name = NAMES[Math.floor(Math.random() * NAMES.length)] ?? "";
      // What fails during a failover, or waits for a claim that it brought back, is no matter of this test.
      await locks
        .mutex(name)
        .run({ wait: 100 }, ({ token }) => this.#count(name, token))
        .catch(() => undefined);
      await sleep(1);
    }
  }

  #count(name: string, token: bigint): void {
    const greatest = this.#greatest.get(name) ?? 0n;
    if (token > greatest) this.#greatest.set(name, token);
    else this.regressions++;
    this.grants++;
  }

  async more(grants: number): Promise<void> {
    const until = this.grants + grants;
    await expect.poll(() => this.grants, { timeout: 40_000 }).toBeGreaterThan(until);
  }
}

describe("a failover loses the last grants, and the clock of the new primary is 10 s behind", () => {
  let trio: RedisSentinel;
  beforeAll(async () => {
    trio = await startRedisSentinel({ replicaEnv: clock.env });
  });
  afterAll(() => trio.stop());

  test("the tokens of six connections under load only grow", async () => {
    await clock.set(-BEHIND_MS);
    const connections = Array.from({ length: CONNECTIONS }, (_, index) =>
      open({ url: trio.url, library: LIBRARIES[index % 2] ?? "redis" }, { ttl: "2s" }),
    );
    const load = new Load(connections);
    await load.more(300);
    // Stopped, and their connections closed: what is written now reaches no replica.
    for (const replica of trio.replicas) replica.process.pause();
    await askRedis(trio.master.port, "CLIENT", "KILL", "TYPE", "replica");
    await load.more(300);
    await trio.master.process.kill();
    for (const replica of trio.replicas) replica.process.resume();
    await load.more(300);
    expect(load.regressions).toBe(0);
  });
});

describe("the same in a cluster, where one of three masters is lost", () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster({ withReplica: [0], replicaEnv: clock.env });
  });
  afterAll(() => cluster.stop());

  test("a process that has only asked the other masters gets a greater token", async () => {
    await clock.set(-BEHIND_MS);
    const [lost, elsewhere] = await Promise.all([
      nameOn(cluster, 0, "floor", "a"),
      nameOn(cluster, 2, "floor", "b"),
    ]);
    const parties = await Promise.all(
      LIBRARIES.map(async (library) => {
        const locks = open({ url: cluster.url, library, prefix: "floor" });
        await locks.mutex(elsewhere).run(() => undefined);
        return { library, locks };
      }),
    );
    const [[master], [replica]] = [cluster.nodes, cluster.replicas];
    replica?.process.pause();
    await askRedis(master?.port ?? 0, "CLIENT", "KILL", "TYPE", "replica");
    const others = open({ url: cluster.url, prefix: "floor" });
    let last = await others.mutex(lost).run((lease) => lease.token);
    await sleep(LAG_MS);
    await master?.process.kill();
    replica?.process.resume();
    await askRedis(replica?.port ?? 0, "CLUSTER", "FAILOVER", "TAKEOVER");
    for (const { library, locks } of parties) {
      const token = await locks.mutex(lost).run({ wait: "30s" }, (lease) => lease.token);
      expect(token, library).toBeGreaterThan(last);
      last = token;
    }
  });
});

describe("one server, whose clock is set back by 10 s", () => {
  let server: RedisServers;
  let port = 0;
  let url = "";
  beforeAll(async () => {
    server = await startRedisServers(1, { env: clock.env });
    port = server.ports[0] ?? 0;
    url = `redis://127.0.0.1:${port}`;
  });
  afterAll(() => server.stop());
  beforeEach(() => clock.set(0));
  afterEach(() => askRedis(port, "FLUSHALL"));

  function backend(library: Library = "ioredis"): Backend {
    const engine = redis({ url, library });
    onTestFinished(() => engine.close());
    return engine;
  }

  test.each(LIBRARIES)("a name that was forgotten before gets a greater token, by %s", async (library) => {
    const [locks, others] = [open({ url, library }), open({ url, library, retention: "50ms" })];
    await locks.mutex("own").run(() => undefined);
    const token = await others.mutex("forgotten").run((lease) => lease.token);
    await expect.poll(() => look(port).exists("locktender:{forgotten}"), { timeout: 5_000 }).toBe(0);
    await clock.set(-BEHIND_MS);
    expect(await locks.mutex("forgotten").run((lease) => lease.token)).toBeGreaterThan(token);
  });

  test("a cell that was lost before gets a greater version", async () => {
    const [{ cells }, { cells: others }] = [backend(), backend()];
    await cells?.write("own", { text: "1" });
    const version = (await others?.write("lost", { text: "1" })) ?? 0n;
    await askRedis(port, "FLUSHALL");
    await sleep(LAG_MS);
    await clock.set(-BEHIND_MS);
    expect(await cells?.write("lost", { text: "2" })).toBeGreaterThan(version);
    expect(await cells?.write("deleted", { text: undefined })).toBeGreaterThan(version);
    expect(await cells?.write("long", { text: "3", keepMs: 60_000 })).toBeGreaterThan(version);
    const short = await cells?.write("short", { text: "4", keepMs: 1_000 });
    expect(short, "it is forgotten before the clock gets there").toBeLessThan(version);
  });

  test("a clock that is set back by more than an hour is what counts, and the next floor is by that clock", async () => {
    const [locks, others] = [open({ url }), open({ url })];
    const token = await locks.mutex("before").run((lease) => lease.token);
    // Else a floor that was taken would be below that token, too.
    await sleep(LAG_MS);
    await clock.set(-HOUR_MS - BEHIND_MS);
    const back = await locks.mutex("after").run((lease) => lease.token);
    expect(back).toBeLessThan(token);
    await sleep(LAG_MS);
    await clock.set(-HOUR_MS - 2 * BEHIND_MS);
    expect(await locks.mutex("again").run((lease) => lease.token)).toBeGreaterThan(back);
    // Nothing is left of the hour for a process that never saw it.
    expect(await others.mutex("elsewhere").run((lease) => lease.token)).toBeLessThan(back);
  });

  describe("while tickets are ahead of it", () => {
    async function ahead(library: Library): Promise<Backend> {
      const engine = backend(library);
      await engine.claim({ ...CLAIM, name: "own", id: "first" });
      await clock.set(-BEHIND_MS);
      return engine;
    }

    test.each(LIBRARIES)("every answer is the same as in memory, by %s", async (library) => {
      const engine = await ahead(library);
      const property = fc.asyncProperty(commands, (list) => sideBySide(engine, list));
      await fc.assert(property, { numRuns: 60, interruptAfterTimeLimit: 20_000 });
    });

    test("a free lock costs as much as ever, and its counter is kept until the clock has passed it", async () => {
      const engine = await ahead("ioredis");
      await engine.claim({ ...CLAIM, name: "x", id: "known" });
      await engine.release({ name: "x", id: "known" });
      const log = await CommandLog.of(port);
      const claimed = await log.during(() => engine.claim({ ...CLAIM, name: "y", id: "second" }));
      const released = await log.during(() => engine.release({ name: "y", id: "second" }));
      expect([claimed.inScripts, released.inScripts]).toEqual(Array(2).fill(["time", "get", "set"]));
      expect(await look(port).pttl("locktender:{y}")).toBeGreaterThan(600_000 + BEHIND_MS / 2);
    });

    test("a full memory frees the lock, and keeps the counter", async () => {
      const engine = await ahead("ioredis");
      const claimed = await engine.claim({ ...CLAIM, name: "full", id: "second" });
      await askRedis(port, "CONFIG", "SET", "maxmemory", "1");
      const released = await engine
        .release({ name: "full", id: "second" })
        .finally(() => askRedis(port, "CONFIG", "SET", "maxmemory", "0"));
      expect(released).toBe(true);
      const ticket = "ticket" in claimed ? String(claimed.ticket) : "";
      expect(await look(port).get("locktender:{full}")).toBe(ticket);
    });
  });
});
