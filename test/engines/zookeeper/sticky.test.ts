import { createLocks, type Locks, type LocksOptions } from "locktender";
import { startFaultProxy } from "locktender/testing";
import { zookeeper } from "locktender/zookeeper";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { askServer, startZooKeeper, type ZooKeeper } from "./server.js";
import { TestClient } from "./test-client.js";

/** So long that no renewal and no end of the sticky time falls into a test. */
const TIMES = { ttl: "10m", wait: "10s" } as const;
const STICKY = { sticky: "5m" } as const;
const EPHEMERAL = 1;
const EPHEMERAL_SEQUENTIAL = 3;

let server: ZooKeeper;
beforeAll(async () => {
  server = await startZooKeeper({ config: ["maxSessionTimeout=900000"] });
});
afterAll(() => server.stop());

let names = 0;
let name: string;
beforeEach(() => {
  name = `sticky-${++names}`;
});

function open(options: LocksOptions = {}, url = server.url): Locks {
  const locks = createLocks(zookeeper({ url }), { ...TIMES, ...options });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function client(): Promise<TestClient> {
  const opened = await TestClient.open(server.url);
  onTestFinished(() => opened.close());
  return opened;
}

const token = (locks: Locks) => locks.mutex(name, STICKY).run((lease) => lease.token);

/** How many requests the server receives meanwhile. */
async function during(work: () => Promise<unknown>): Promise<number> {
  const [node] = server.nodes;
  const received = async () => {
    const text = await askServer(node?.host ?? "", node?.port ?? 0, "srvr");
    return Number(/^Received: (\d+)/m.exec(text)?.[1]);
  };
  const before = await received();
  await work();
  // The question itself is one, too.
  return (await received()) - before - 1;
}

test("a sticky claim costs two watches more, which are sent together, and nothing while it stays", async () => {
  const locks = open();
  await locks.mutex("warm").run(() => undefined);
  expect(await during(() => token(locks))).toBe(4);
  expect(await during(() => token(locks))).toBe(0);
});

test("a refused try tells the holder once, with two requests, and only a sticky one", async () => {
  const [locks, other] = [open(), open()];
  const trying = () => other.mutex(name).tryAcquire();
  await Promise.all([locks, other].map((one) => one.mutex("warm").run(() => undefined)));
  const lease = await locks.mutex(name, STICKY).acquire();
  // Its process looks anew at what it watches.
  expect(await during(trying)).toBeLessThanOrEqual(2 + 2 + 2);
  // It has been told: the second one only looks.
  expect(await during(trying)).toBeLessThanOrEqual(2 + 1 + 2);
  await lease.release();
  // The claim of a task that holds when it is told is not kept afterwards; and nothing is left of it.
  expect(await (await client()).children(`/locktender/${name}`)).toEqual([]);
  const usual = await locks.mutex(name).acquire();
  expect(await during(trying)).toBe(2);
  await usual.release();
});

test("a reader that only tries, and a claim with maxWaiters, tell it too", async () => {
  const [locks, other] = [open(), open()];
  const tree = await client();
  const tries = [
    () => other.readWrite(name).read.tryAcquire(),
    () =>
      other
        .mutex(name, { maxWaiters: 0 })
        .acquire()
        .catch(() => null),
  ];
  for (const trying of tries) {
    await token(locks);
    expect(await trying()).toBeNull();
    await expect.poll(() => tree.children(`/locktender/${name}`)).toEqual([]);
  }
});

test("what its own process writes does not end an idle claim", async () => {
  const locks = open();
  const first = await locks.mutex(name, STICKY).run(async (lease) => {
    await lease.update({ note: "changed" });
    return lease.token;
  });
  await locks.mutex(`${name}-2`).run(() => undefined);
  expect(await token(locks)).toBe(first + 1n);
});

test("a node of another program that comes behind an idle claim ends it; one that is no claim does not", async () => {
  const locks = open();
  const tree = await client();
  const first = await token(locks);
  await tree.create(`/locktender/${name}/data`, EPHEMERAL);
  expect(await token(locks)).toBe(first + 1n);
  await tree.create(`/locktender/${name}/_c_1-lock-`, EPHEMERAL_SEQUENTIAL);
  await expect.poll(() => tree.children(`/locktender/${name}`)).toHaveLength(2);
});

test("a claim that comes while the connection is broken is told when it stands again", async () => {
  const [node] = server.nodes;
  const proxy = await startFaultProxy({ target: { host: node?.host ?? "", port: node?.port ?? 0 } });
  onTestFinished(() => proxy.close());
  const [locks, other] = [open({}, `zookeeper://${proxy.host}:${proxy.port}`), open()];
  const tree = await client();
  await token(locks);
  proxy.refuse();
  const waiting = other.mutex(name).acquire();
  await expect.poll(() => tree.children(`/locktender/${name}`)).toHaveLength(2);
  proxy.heal();
  await (await waiting).release();
});
