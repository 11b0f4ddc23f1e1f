import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type LockEvent, type Locks, type LocksOptions } from "locktender";
import { type FaultProxy, startFaultProxy } from "locktender/testing";
import { zookeeper } from "locktender/zookeeper";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { PrivateNetwork } from "../../servers/private-network.js";
import { askServer, startZooKeeper, type ZooKeeper, type ZooKeeperNode } from "./server.js";

const TTL_MS = 1_500;

let network: PrivateNetwork | undefined;
let ensemble: ZooKeeper;
beforeAll(async () => {
  network = await PrivateNetwork.create(3);
  ensemble = await startZooKeeper(network === undefined ? { members: 3 } : { hosts: network.hosts });
});
afterAll(async () => {
  await ensemble.stop();
  await network?.stop();
});
// Whatever a test did to the ensemble, the next one finds it whole.
afterEach(async () => {
  await network?.heal();
  await roles();
});

type Endpoint = Pick<ZooKeeperNode, "host" | "port">;

function open(nodes: readonly Endpoint[] = ensemble.nodes, options: LocksOptions = {}): Locks {
  const url = `zookeeper://${nodes.map(({ host, port }) => `${host}:${port}`).join(",")}`;
  const locks = createLocks(zookeeper({ url, timeout: "1s" }), { ttl: TTL_MS, ...options });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** The server that leads, once all three are there. */
async function roles(): Promise<{ leader: ZooKeeperNode; followers: [ZooKeeperNode, ZooKeeperNode] }> {
  for (;;) {
    const modes = await Promise.all(ensemble.nodes.map((node) => node.mode().catch(() => "away")));
    const leader = ensemble.nodes[modes.indexOf("leader")];
    const followers = ensemble.nodes.filter((_, index) => modes[index] === "follower");
    if (leader !== undefined && followers.length === 2) {
      return { leader, followers: followers as [ZooKeeperNode, ZooKeeperNode] };
    }
    await sleep(50);
  }
}

/** A proxy in front of each server, so that a client can be cut off from all of them. */
async function proxies(): Promise<FaultProxy[]> {
  return Promise.all(
    ensemble.nodes.map(async ({ host, port }) => {
      const proxy = await startFaultProxy({ target: { host, port } });
      onTestFinished(() => proxy.close());
      return proxy;
    }),
  );
}

async function cut(one: ZooKeeperNode, others: readonly ZooKeeperNode[]): Promise<void> {
  const host = (node: ZooKeeperNode) => network?.hosts.find(({ address }) => address === node.host);
  for (const other of others) {
    const [from, to] = [host(one), host(other)];
    if (from !== undefined && to !== undefined) await network?.cut(from, to);
  }
}

let names = 0;
let name: string;
beforeEach(() => {
  name = `fault-${process.pid}-${++names}`;
});

/** The holder is cut off; when it was told is held against when the next one came in. */
async function expectOrderlySuccession(
  holder: Locks,
  others: Locks,
  cutOff: () => Promise<unknown> | unknown,
): Promise<void> {
  const lease = await holder.mutex(name).acquire();
  let toldAt = Number.NaN;
  lease.signal.addEventListener("abort", () => {
    toldAt = performance.now();
  });
  // Also past some renewals: what counts is the last one that was acknowledged.
  await sleep(TTL_MS);
  expect(lease.held).toBe(true);
  await cutOff();
  const next = await others.mutex(name).acquire({ wait: "30s", ttl: "10s" });
  const enteredAt = performance.now();
  expect(toldAt).toBeLessThanOrEqual(enteredAt);
  expect(lease.held).toBe(false);
  expect(next.token).toBeGreaterThan(lease.token);
  expect(next.held).toBe(true);
  await next.release();
}

describe("an ensemble of three", () => {
  test("the leader is killed: holders and waiters ride through, and tokens grow", async () => {
    const { leader } = await roles();
    const [locks, others] = [open(undefined, { ttl: "10s" }), open(undefined, { ttl: "10s" })];
    const lease = await locks.mutex(name).acquire();
    const waiting = others.mutex(name).acquire({ wait: "30s" });
    await sleep(200);
    await leader.process.kill();
    await sleep(2_000);
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    await leader.process.restart();
    expect(next.held).toBe(true);
  });

  test("the leader is stopped and resumed: its client has stopped believing before the next one is in", async () => {
    const { leader, followers } = await roles();
    await expectOrderlySuccession(open([leader]), open(followers), () => leader.process.pause());
    leader.process.resume();
  });

  test("scenario S14: the client is cut off from all servers, and its session expires", async () => {
    const between = await proxies();
    await expectOrderlySuccession(open(between), open(), () => {
      for (const proxy of between) proxy.blackhole("both");
    });
  });

  test("scenario S14: the answers do not arrive, though the requests do", async () => {
    const between = await proxies();
    await expectOrderlySuccession(open(between), open(), () => {
      for (const proxy of between) proxy.blackhole("to-client");
    });
  });

  test("a session that expires in the queue costs its place: the waiter enters again, and is served", async () => {
    const holder = await open(undefined, { ttl: "10s" }).mutex(name).acquire();
    const events: LockEvent[] = [];
    const between = await proxies();
    const cutOff = open(between, { ttl: TTL_MS, onEvent: (event) => events.push(event) });
    const waiting = cutOff.mutex(name).acquire({ wait: "30s" });
    await sleep(300);
    for (const proxy of between) proxy.blackhole("both");
    const watcher = open();
    while ((await watcher.inspect(name)).waiters.length > 0) await sleep(50);
    for (const proxy of between) proxy.heal();
    while ((await watcher.inspect(name)).waiters.length === 0) await sleep(50);
    await holder.release();
    expect((await waiting).token).toBeGreaterThan(holder.token);
    expect(events.some(({ type }) => type === "queue-position-lost")).toBe(true);
  });

  test("scenario S13: the reply to a create is lost, and another server finds the claim: once, with its token", async () => {
    const between = await proxies();
    const locks = open(between, { ttl: "10s" });
    await locks.mutex(`${name}-before`).run(() => undefined);
    const cuts = between.map((proxy) => proxy.cutBeforeReply((data) => data.includes(name)));
    for (const one of cuts) one.catch(() => undefined);
    const asked = locks.mutex(name).acquire();
    await Promise.race(cuts);
    const made = (await open().inspect(name)).holders.map(({ token }) => token);
    const lease = await asked;
    const { holders, waiters } = await open().inspect(name);
    expect(made).toEqual([lease.token]);
    expect(holders.map(({ token }) => token)).toEqual(made);
    expect(waiters).toEqual([]);
    expect(await lease.release()).toBe(true);
    expect((await open().inspect(name)).holders).toEqual([]);
  });

  test("a claim that was called off while no server answered leaves nothing behind", async () => {
    const between = await proxies();
    const locks = open(between, { ttl: "10s" });
    await locks.mutex(`${name}-before`).run(() => undefined);
    for (const proxy of between) proxy.blackhole("to-client");
    const controller = new AbortController();
    const asked = locks.mutex(name).acquire({ signal: controller.signal, wait: "30s" });
    const watcher = open();
    while ((await watcher.inspect(name)).holders.length === 0) await sleep(20);
    controller.abort(new Error("called off"));
    await expect(asked).rejects.toThrow("called off");
    await sleep(1_000);
    for (const proxy of between) proxy.heal();
    // Long before the session, which lives on, would end.
    await expect.poll(async () => (await watcher.inspect(name)).holders.length, { timeout: 5_000 }).toBe(0);
  });

  test("scenario S7: what a grant costs the servers does not grow with the queue", async () => {
    const perGrant = async (waiters: number) => {
      const locks = open(undefined, { ttl: "60s" });
      const mutex = locks.mutex(`${name}-${waiters}`, { fair: true });
      const holder = await mutex.acquire();
      const runs = Array.from({ length: waiters }, () => mutex.run({ wait: "60s" }, () => undefined));
      const watcher = open();
      while ((await watcher.inspect(mutex.name)).waiters.length < waiters) await sleep(50);
      const before = await received();
      await holder.release();
      await Promise.all(runs);
      return ((await received()) - before) / waiters;
    };
    const few = await perGrant(10);
    const many = await perGrant(1_000);
    // A look at the line, and the deletion; some more for heartbeats.
    expect(many).toBeLessThan(3);
    expect(many).toBeLessThan(few + 1);
  });
});

describe("partitions", () => {
  test("scenario S14: the client's server is cut off from the leader, and its pings lie", async (context) => {
    if (network === undefined) return context.skip("needs root, and network namespaces");
    const { leader, followers } = await roles();
    const [lonely, third] = followers;
    await expectOrderlySuccession(open([lonely]), open([leader, third]), () => cut(lonely, [leader]));
  });

  test("scenario S14: a minority is cut off, with its client; there no client is let in", async (context) => {
    if (network === undefined) return context.skip("needs root, and network namespaces");
    const { leader, followers } = await roles();
    const [lonely, third] = followers;
    await expectOrderlySuccession(open([lonely]), open([leader, third]), () => cut(lonely, [leader, third]));
    await expect(open([lonely]).mutex(name).acquire({ wait: "1s" })).rejects.toMatchObject({
      code: "backend",
    });
  });

  test("scenario S14: the leader is cut off, with its client; the others elect a new one", async (context) => {
    if (network === undefined) return context.skip("needs root, and network namespaces");
    const { leader, followers } = await roles();
    await expectOrderlySuccession(open([leader]), open(followers), () => cut(leader, followers));
  });
});

async function received(): Promise<number> {
  const answers = await Promise.all(ensemble.nodes.map(({ host, port }) => askServer(host, port, "srvr")));
  return answers.reduce((sum, text) => sum + Number(/^Received: (\d+)/m.exec(text)?.[1] ?? 0), 0);
}
