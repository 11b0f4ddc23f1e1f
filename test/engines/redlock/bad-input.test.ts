import { inspect } from "node:util";
import { connect, createLocks, isLockError } from "locktender";
import { type RedlockOptions, redlock } from "locktender/redlock";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { bornKey } from "#lib/backends/redlock/keys.js";
import { askRedis, startRedisServers } from "../redis/server.js";
import { Quorum, request, sleep, urlOf } from "./tools.js";

const servers = await startRedisServers(3);
const { ports } = servers;
afterAll(() => servers.stop());

const SECRET = "s3cr3t";

async function refusal(ask: () => Promise<unknown>): Promise<{ code: string; shown: string; error?: Error }> {
  try {
    await ask();
    return { code: "let in", shown: "" };
  } catch (error) {
    if (!isLockError(error)) return { code: "not ours", shown: inspect(error) };
    return { code: error.code, shown: `${inspect(error, { depth: 9 })} ${error.stack}`, error };
  }
}

describe("an invalid URL is refused at once, and nothing of it is repeated", () => {
  test.each([
    "redlock:",
    `redlock://:${SECRET}@h1`,
    `redlock://:${SECRET}@h1,h2`,
    `redlock://:${SECRET}@h1,h2,h1`,
    `redlock://:${SECRET}@h1,h2,H2:6379`,
    `redlock://:${SECRET}@h1,,h3`,
    `redlock://:${SECRET}@h1,h2,h3:0`,
    `redlock://:${SECRET}@h1,h2,h3/db`,
    `redlock://:${SECRET}@h1,h2,h3/0/1`,
    `redlock://:a@${SECRET}@h1,h2,h3`,
    `redlock://:${SECRET}@h1,h2,h3?database=1`,
    `redlocks://:${SECRET}@h1,h2`,
    `redlock://${Array.from({ length: 16 }, (_, index) => `h${index}`).join(",")}`,
  ])("%s", async (url) => {
    const { code, shown } = await refusal(() => connect(url));
    expect(code).toBe("invalid-option");
    expect(shown).not.toContain(SECRET);
  });
});

test("invalid options are refused at once", () => {
  const url = urlOf(ports);
  const bad: object[] = [
    {},
    { url, clients: [] },
    { clients: "three" },
    { clients: [1, 2, 3] },
    { url, library: "other" },
    { url, prefix: "" },
    { url, prefix: "a{b}" },
    { url, maxTtl: 0 },
    { url, maxTtl: Infinity },
    { url, fresh: "yes" },
    { url, timeout: "2 s" },
    { url, eviction: "ok" },
    { url, replicas: 1 },
  ];
  for (const options of bad) {
    expect(() => redlock(options as RedlockOptions), JSON.stringify(options)).toThrow(
      expect.objectContaining({ code: "invalid-option" }),
    );
  }
});

describe("what a quorum cannot promise is refused, with the reason", () => {
  test("semaphores, queues and their order", async () => {
    const quorum = await Quorum.on(ports);
    const permit = { ...request, weight: 1, capacity: 3 };
    await expect(quorum.backend().claim(permit)).rejects.toMatchObject({
      code: "unsupported",
      retryable: false,
      message: expect.stringContaining("would let in three"),
    });
    const locks = quorum.open();
    await expect(locks.mutex("a").acquire({ maxWaiters: 2 })).rejects.toMatchObject({ code: "unsupported" });
    expect(() => locks.mutex("a", { fair: true })).toThrow(/keeps no queue/);
    const demanding = () => createLocks(quorum.backend(), { require: { queueing: true } });
    expect(demanding).toThrow(expect.objectContaining({ code: "unsupported" }));
    expect(createLocks(quorum.backend(), { require: { fencing: true } }).guarantees.fencing).toBe(true);
  });

  test("leases that are longer than a server that lost its memory waits", async () => {
    const locks = (await Quorum.on(ports, { maxTtl: "10s" })).open({ ttl: "10s" });
    expect(await locks.mutex("a").run(({ held }) => held)).toBe(true);
    for (const options of [{ ttl: "11s" }, { minHold: "11s" }] as const) {
      await expect(locks.mutex("a").acquire(options)).rejects.toMatchObject({
        code: "unsupported",
        message: expect.stringContaining("maxTtl"),
      });
    }
  });

  test("an even number of servers is a caveat, and no more", () => {
    const caveats = (count: number) => {
      const hosts = Array.from({ length: count }, (_, index) => `h${index}`);
      return redlock({ url: `redlock://${hosts.join(",")}` }).traits.caveats.join(" ");
    };
    expect(caveats(4)).toContain("even number");
    expect(caveats(4)).toContain("1 of 4 servers may fail");
    expect(caveats(5)).not.toContain("even number");
    expect(caveats(5)).toContain("2 of 5 servers may fail");
  });
});

describe("clients that do not agree on maxTtl", () => {
  test("the longer one counts: a client that says a shorter one is refused and told, and it cannot be lowered by a lost memory", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "500ms" });
    const short = () => quorum.open({ ttl: "500ms" }, { maxTtl: "500ms" });
    const long = () => quorum.open({ ttl: "1s" }, { maxTtl: "2s" });
    expect(
      await short()
        .mutex("a")
        .run(({ held }) => held),
    ).toBe(true);
    // They were declared as new, so they vote for longer leases at once, too.
    expect(
      await long()
        .mutex("a")
        .run(({ held }) => held),
    ).toBe(true);
    await expect(short().mutex("a").acquire()).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("2 s"),
    });
    const [lost = 0, down = 0] = ports;
    await askRedis(lost, "DEL", bornKey(quorum.prefix));
    await short()
      .mutex("b")
      .tryAcquire()
      .catch(() => undefined);
    await sleep(600);
    // For the short one it would vote by now. With another one that does not vote, that would show.
    await askRedis(down, "DEL", bornKey(quorum.prefix));
    await expect(long().mutex("b").tryAcquire()).rejects.toMatchObject({
      code: "backend",
      message: expect.stringContaining(`127.0.0.1:${lost} has lost its memory`),
    });
    await sleep(2_000);
    expect(await long().mutex("b").tryAcquire()).toMatchObject({ held: true });
  });

  test("a server that has forgotten the longer one gives no majority to a client that says the shorter one, if another knows", async () => {
    const quorum = await Quorum.on(ports, { maxTtl: "500ms" });
    const long = await quorum.behind([2], { ttl: "5s" }, { maxTtl: "5s" });
    long.proxies[0]?.refuse();
    const lease = await long.locks.mutex("a").acquire({ renew: false });
    await askRedis(ports[1] ?? 0, "FLUSHALL");
    const short = await quorum.behind([1, 2], { ttl: "500ms" });
    await short.locks
      .mutex("a")
      .tryAcquire()
      .catch(() => undefined);
    await sleep(600);
    // The one that knows answers first.
    for (const proxy of short.proxies) proxy.delay({ toClientMs: 50 });
    await expect(short.locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "unsupported" });
    expect(lease.held).toBe(true);
  });
});

test("a server that may evict locks has no vote, and a majority of them is refused", async () => {
  for (const port of ports.slice(0, 2))
    await askRedis(port, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "100mb");
  const { code, shown } = await refusal(() => connect(urlOf(ports)));
  expect(code).toBe("unsupported");
  expect(shown).toContain("maxmemory-policy allkeys-lru");
  expect(shown).toContain('connect(url, { engine: { eviction: "accept" } })');
  const accepting = (await Quorum.on(ports, { eviction: "accept" })).open();
  expect(await accepting.mutex("a").run(({ held }) => held)).toBe(true);
  for (const port of ports)
    await askRedis(port, "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", 0);
});

test("a ttl that the quorum cannot keep is told by connect, not by the first lock", async () => {
  const refused = connect(urlOf(ports), { ttl: "5m" });
  await expect(refused).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringContaining("connect(url, { engine: { maxTtl: 300000 } })"),
  });
  const prefix = `longer-${process.pid}`;
  const locks = await connect(urlOf(ports), {
    ttl: "5m",
    prefix,
    engine: { maxTtl: 300_000, fresh: true },
  });
  onTestFinished(() => locks.close());
  expect(await locks.mutex("a").run(({ held }) => held)).toBe(true);
});

test("a wrong password is an error for good, which does not show it", async () => {
  const url = urlOf(ports).replace("://", `://nobody:${SECRET}@`);
  const { code, shown, error } = await refusal(() => connect(url));
  expect(code).toBe("backend");
  expect(error).toMatchObject({ retryable: false });
  expect(shown).not.toContain(SECRET);
  expect(shown).toContain("Check the user name and the password");
});

test("something that is no Redis script's answer is an error, and no grant", async () => {
  const quorum = await Quorum.on(ports);
  for (const port of ports) await askRedis(port, "HSET", quorum.headOf("a"), "x", "y");
  await expect(quorum.open().mutex("a").tryAcquire()).rejects.toMatchObject({
    code: "backend",
    retryable: false,
  });
});
