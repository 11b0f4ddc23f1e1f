import { setTimeout as sleep } from "node:timers/promises";
import type { LockEvent } from "locktender";
import { type FaultProxy, startFaultProxy } from "locktender/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { type PrivateHost, PrivateNetwork } from "../../servers/private-network.js";
import { openAt, roles, succession } from "./ensemble.js";
import { type Etcd, type EtcdNode, startEtcd } from "./server.js";

const TTL_MS = 3_000;
const LONG_MS = 5_000;
const options = { ttl: TTL_MS, wait: "40s" } as const;

const network = await PrivateNetwork.create(3);
let ensemble: Etcd;
beforeAll(async () => {
  ensemble = await startEtcd(network === undefined ? { members: 3 } : { hosts: network.hosts });
});
afterAll(async () => {
  await ensemble.stop();
  await network?.stop();
});

let name = "";
beforeEach(({ task }) => {
  name = task.name;
});

/** A proxy in front of each server. */
function between(): Promise<FaultProxy[]> {
  return Promise.all(
    ensemble.nodes.map(async ({ host, port }) => {
      const proxy = await startFaultProxy({ target: { host, port } });
      onTestFinished(() => proxy.close());
      return proxy;
    }),
  );
}

describe("of three servers", () => {
  test("the leader is killed: holders keep, waiters get in, and tokens grow", async () => {
    const { leader } = await roles(ensemble);
    const lease = await openAt(ensemble.nodes, { ...options, ttl: "10s" })
      .mutex(name)
      .acquire();
    const waiting = openAt(ensemble.nodes, options).mutex(name).acquire();
    await leader.process.kill();
    // A caller that asks in the middle of it is served, too.
    await openAt(ensemble.nodes, options)
      .mutex(`${name}, another`)
      .run(() => undefined);
    await sleep(2_000);
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    expect((await waiting).token).toBeGreaterThan(lease.token);
    await leader.process.restart();
  });

  test("the leader is stopped and resumed: the holder that used it has stopped to trust its lease in time", async () => {
    const { leader, followers } = await roles(ensemble);
    const { toldMs, enteredMs, tokens } = await succession(
      name,
      openAt([leader], options),
      openAt(followers, options),
      () => leader.process.pause(),
    );
    leader.process.resume();
    expect(toldMs).toBeLessThan(enteredMs);
    expect(tokens[1]).toBeGreaterThan(tokens[0]);
  });

  test("two are killed: no majority is an error of the engine, and all is well when they are back", async () => {
    const { followers, leader } = await roles(ensemble);
    const locks = openAt(ensemble.nodes, options);
    await locks.mutex(name).run(() => undefined);
    await Promise.all(followers.map(({ process }) => process.kill()));
    await expect(locks.mutex(name).acquire({ wait: "3s" })).rejects.toMatchObject({
      code: "backend",
      retryable: true,
    });
    await Promise.all(followers.map(({ process }) => process.restart()));
    expect(await locks.mutex(name).run(() => leader.port)).toBe(leader.port);
  });

  test("scenario S14: the client is cut off from all of them: it is told before the next one is in", async () => {
    const proxies = await between();
    const { toldMs, enteredMs, tokens, loss } = await succession(
      name,
      openAt(proxies, options),
      openAt(ensemble.nodes, options),
      () => {
        for (const proxy of proxies) proxy.blackhole("both");
      },
    );
    expect(toldMs).toBeLessThan(enteredMs);
    expect(tokens[1]).toBeGreaterThan(tokens[0]);
    expect(loss).toBe("expired");
  });

  test("scenario S13: the reply to a claim is lost, and another server finds it: once, with its token", async () => {
    const proxies = await between();
    const locks = openAt(proxies, { ...options, ttl: "10s" });
    const watcher = openAt(ensemble.nodes, options);
    await locks.mutex(`${name}, before`).run(() => undefined);
    const cuts = proxies.map((proxy) => proxy.cutBeforeReply((data) => data.includes("its note")));
    for (const one of cuts) one.catch(() => undefined);
    // What is sent to watch a claim has the name of the lock in it as well.
    const asked = locks.mutex(name).acquire({ note: "its note" });
    await Promise.race(cuts);
    const made = (await watcher.inspect(name)).holders.map(({ token }) => token);
    const lease = await asked;
    expect(made).toEqual([lease.token]);
    const { holders, waiters } = await watcher.inspect(name);
    expect(holders.map(({ token }) => token)).toEqual(made);
    expect(waiters).toEqual([]);
    expect(await lease.release()).toBe(true);
    expect((await watcher.inspect(name)).holders).toEqual([]);
  });
});

describe.skipIf(network === undefined)(
  "in a network that breaks [needs root, for network namespaces]",
  () => {
    const net = network as PrivateNetwork;
    const hostOf = (node: EtcdNode) => net.hosts.find(({ address }) => address === node.host) as PrivateHost;
    afterEach(() => net.heal());

    async function isolate(node: EtcdNode): Promise<void> {
      const others = ensemble.nodes.filter((other) => other !== node);
      await Promise.all(others.map((other) => net.cut(hostOf(node), hostOf(other))));
    }

    test("scenario S14: a follower is cut off, with its client: the holder is told before the next one is in", async () => {
      const { leader, followers } = await roles(ensemble);
      const [lonely, third] = followers as [EtcdNode, EtcdNode];
      const { toldMs, enteredMs, tokens } = await succession(
        name,
        openAt([lonely], options),
        openAt([leader, third], options),
        () => isolate(lonely),
      );
      expect(toldMs).toBeLessThan(enteredMs);
      expect(tokens[1]).toBeGreaterThan(tokens[0]);
    });

    test("scenario S14: the leader is cut off, with its client: the holder is told before the next one is in", async () => {
      const { leader, followers } = await roles(ensemble);
      const { toldMs, enteredMs, tokens } = await succession(
        name,
        openAt([leader], options),
        openAt(followers, options),
        () => isolate(leader),
      );
      expect(toldMs).toBeLessThan(enteredMs);
      expect(tokens[1]).toBeGreaterThan(tokens[0]);
    });

    test("a leader that was resumed, and knows nothing of its successor, prolongs nothing", async () => {
      const { leader, followers } = await roles(ensemble);
      const { toldMs, enteredMs } = await succession(
        name,
        openAt([leader], { ...options, ttl: LONG_MS }),
        openAt(followers, options),
        async () => {
          // Long enough for a successor, with whom the ttl runs out; but not so long that the holder knows it.
          leader.process.pause();
          await isolate(leader);
          await sleep(LONG_MS - 1_000);
          leader.process.resume();
        },
      );
      expect(toldMs).toBeLessThan(enteredMs);
    });

    test("a follower is cut off: a client that knows the others goes on by them and keeps its lock", async () => {
      const { leader, followers } = await roles(ensemble);
      const [lonely, third] = followers as [EtcdNode, EtcdNode];
      const lease = await openAt([lonely, leader, third], { ...options, ttl: "6s" })
        .mutex(name)
        .acquire();
      await isolate(lonely);
      await sleep(8_000);
      expect(lease.held).toBe(true);
      expect(await lease.release()).toBe(true);
    });

    test("a session that expires while its claim is queued: a new place at the end, and served", async () => {
      const { leader, followers } = await roles(ensemble);
      const [lonely, third] = followers as [EtcdNode, EtcdNode];
      const events: LockEvent[] = [];
      const holder = await openAt([leader, third], { ...options, ttl: "30s" })
        .mutex(name)
        .acquire();
      const cut = openAt([lonely], { ttl: "4s", wait: "60s", onEvent: (event) => events.push(event) });
      const waiting = cut.mutex(name).acquire();
      const watcher = openAt([leader, third], options);
      await expect.poll(async () => (await watcher.inspect(name)).waiters.length).toBe(1);
      await isolate(lonely);
      await expect
        .poll(async () => (await watcher.inspect(name)).waiters.length, { timeout: 20_000 })
        .toBe(0);
      await net.heal();
      await holder.release();
      const lease = await waiting.catch((error: unknown) => error);
      // An outage that outlasts the ttl may end the wait, too, but then as such.
      if (lease instanceof Error) expect(lease).toMatchObject({ code: "backend" });
      else expect(events.map(({ type }) => type)).toContain("queue-position-lost");
    });
  },
);
