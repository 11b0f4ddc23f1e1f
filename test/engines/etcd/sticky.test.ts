import { spawn } from "node:child_process";
import { once } from "node:events";
import { createLocks, type Locks, type LocksOptions } from "locktender";
import { etcd } from "locktender/etcd";
import { startFaultProxy } from "locktender/testing";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { ensurePrograms } from "../../servers/programs.js";
import { etcdctl } from "./harness.js";
import { ETCDCTL_PROGRAM, type Etcd, startEtcd } from "./server.js";

/** So long that no renewal and no end of the sticky time falls into a test. */
const TIMES = { ttl: "10m", wait: "10s" } as const;
const STICKY = { sticky: "5m" } as const;

let server: Etcd;
beforeAll(async () => {
  await ensurePrograms([ETCDCTL_PROGRAM]);
  server = await startEtcd();
});
afterAll(() => server.stop());

let names = 0;
let name: string;
beforeEach(() => {
  name = `sticky-${++names}`;
});

function open(options: LocksOptions = {}, url = server.url): Locks {
  const locks = createLocks(etcd({ url, prefix: "" }), { ...TIMES, ...options });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function keys(prefix: string): Promise<readonly string[]> {
  const listed = await etcdctl(server.nodes, "get", "--prefix", prefix, "--keys-only");
  return listed.split("\n").filter((line) => line !== "");
}

const token = (locks: Locks) => locks.mutex(name, STICKY).run((lease) => lease.token);

/** The messages that the server receives meanwhile, by method. */
async function during(work: () => Promise<unknown>): Promise<Record<string, number>> {
  const received = async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${server.nodes[0]?.port}/metrics`)).text();
    const lines = metrics.matchAll(
      /^grpc_server_msg_received_total\{.*"(\w+)",grpc_service="etcdserverpb.*\} (\S+)$/gm,
    );
    return new Map(Array.from(lines, ([, method = "", count]) => [method, Number(count)]));
  };
  const before = await received();
  await work();
  const after = await received();
  const grown = [...after].map(([method, count]) => [method, count - (before.get(method) ?? 0)] as const);
  return Object.fromEntries(grown.filter(([, count]) => count > 0));
}

test("a sticky claim costs one watch more, and nothing while it stays", async () => {
  const locks = open();
  await locks.mutex("warm", STICKY).run(() => undefined);
  expect(await during(() => token(locks))).toEqual({ Txn: 1, Watch: 1 });
  expect(await during(() => token(locks))).toEqual({});
});

test("a refused try tells the holder once, with two requests, and only a sticky one", async () => {
  const [locks, other] = [open(), open()];
  const trying = () => other.mutex(name).tryAcquire();
  await other.mutex("warm").run(() => undefined);
  const lease = await locks.mutex(name, STICKY).acquire();
  expect(await during(trying)).toMatchObject({ Txn: 2, Range: 1 });
  // It has been told: the second one only looks.
  expect(await during(trying)).toEqual({ Txn: 1, Range: 1 });
  await lease.release();
  // The claim of a task that holds when it is told is not kept afterwards; and nothing is left of it.
  expect(await keys(`${name}/`)).toEqual([]);
  const usual = await locks.mutex(name).acquire();
  expect(await during(trying)).toEqual({ Txn: 1 });
  await usual.release();
});

test("a reader that only tries, and a claim with maxWaiters, tell it too", async () => {
  const [locks, other] = [open(), open()];
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
    await expect.poll(() => keys(`${name}/`)).toEqual([]);
  }
});

test("etcdctl lock gets an idle claim at once", async () => {
  const locks = open();
  const first = await token(locks);
  const address = `127.0.0.1:${server.nodes[0]?.port}`;
  const child = spawn("etcdctl", ["--endpoints", address, "lock", name], {
    env: { ...process.env, ETCDCTL_API: "3" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout, "data");
  const exited = once(child, "exit");
  child.kill("SIGINT");
  await exited;
  expect(await token(locks)).toBeGreaterThan(first + 1n);
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

test("a claim that comes while the watch stream is broken is told when it stands again", async () => {
  const [node] = server.nodes;
  const proxy = await startFaultProxy({ target: { host: node?.host ?? "", port: node?.port ?? 0 } });
  onTestFinished(() => proxy.close());
  const [locks, other] = [open({}, `etcd://${proxy.host}:${proxy.port}`), open()];
  await token(locks);
  proxy.refuse();
  const waiting = other.mutex(name).acquire();
  await expect.poll(() => keys(`${name}/`)).toHaveLength(2);
  proxy.heal();
  await (await waiting).release();
});

test("where no watch comes to stand, the lock is granted and the claim does not stay", async () => {
  const [node] = server.nodes;
  const proxy = await startFaultProxy({ target: { host: node?.host ?? "", port: node?.port ?? 0 } });
  onTestFinished(() => proxy.close());
  const locks = open({}, `etcd://${proxy.host}:${proxy.port}`);
  await locks.mutex("warm").run(() => undefined);
  // The request for the watch has the same keys as that for the claim, but no claim in it.
  const isWatch = (data: Buffer) => data.includes(`${name}/`) && !data.includes("of2147483647");
  const held = proxy.holdBack(isWatch);
  const first = await token(locks);
  await held.caught;
  expect(await keys(`${name}/`)).toEqual([]);
  expect(first).toBeGreaterThan(0n);
});
