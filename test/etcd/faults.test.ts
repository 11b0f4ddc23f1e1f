import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { createLocks, type Locks, type LocksOptions } from "locktender";
import { etcd } from "locktender/etcd";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { type Etcd, type EtcdNode, startEtcd } from "../servers/etcd.js";
import { PrivateNetwork } from "../servers/private-network.js";

const run = promisify(execFile);
const TTL_MS = 3_000;

let network: PrivateNetwork | undefined;
let ensemble: Etcd;
beforeAll(async () => {
  network = await PrivateNetwork.create(3);
  ensemble = await startEtcd(network === undefined ? { members: 3 } : { hosts: network.hosts });
});
afterAll(async () => {
  await ensemble.stop();
  await network?.stop();
});

function open(nodes: readonly EtcdNode[] = ensemble.nodes, options: LocksOptions = {}): Locks {
  const url = `etcd://${nodes.map(({ host, port }) => `${host}:${port}`).join(",")}`;
  const locks = createLocks(etcd({ url, timeout: "1s" }), { ttl: TTL_MS, ...options });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function leader(): Promise<{ leader: EtcdNode; followers: EtcdNode[] }> {
  for (;;) {
    const endpoints = ensemble.nodes.map(({ host, port }) => `${host}:${port}`).join(",");
    const { stdout } = await run("etcdctl", ["--endpoints", endpoints, "endpoint", "status", "-w", "json"], {
      env: { ...process.env, ETCDCTL_API: "3" },
    }).catch(() => ({ stdout: "[]" }));
    const members = JSON.parse(stdout) as {
      Endpoint: string;
      Status: { header: { member_id: number }; leader: number };
    }[];
    const found = members.find(
      ({ Status }) => Status.leader !== 0 && Status.leader === Status.header.member_id,
    );
    const node = ensemble.nodes.find(({ host, port }) => found?.Endpoint === `${host}:${port}`);
    if (node !== undefined && members.length === 3) {
      return { leader: node, followers: ensemble.nodes.filter((one) => one !== node) };
    }
    await sleep(100);
  }
}

let names = 0;
let name: string;
beforeEach(() => {
  name = `fault-${process.pid}-${++names}`;
});

/** Records when the holder was told, so that it can be held against when the next one came in. */
async function successionOf(holder: Locks, others: Locks, cutOff: () => Promise<unknown> | unknown) {
  const lease = await holder.mutex(name).acquire();
  let toldAt = Number.NaN;
  lease.signal.addEventListener("abort", () => {
    toldAt = performance.now();
  });
  await cutOff();
  const next = await others.mutex(name).acquire({ wait: "30s" });
  return { toldAt, enteredAt: performance.now(), lease, next };
}

describe("an ensemble of three", () => {
  test("the leader is killed: holders and waiters ride through, and tokens grow", async () => {
    const { leader: victim } = await leader();
    const [locks, others] = [open(), open()];
    const lease = await locks.mutex(name).acquire({ ttl: "10s" });
    const waiting = others.mutex(name).acquire({ wait: "30s" });
    await victim.process.kill();
    await sleep(2_000);
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    expect((await waiting).token).toBeGreaterThan(lease.token);
    await victim.process.restart();
  });

  test("the leader is stopped and resumed: no lease outlives its grant", async () => {
    const { leader: victim, followers } = await leader();
    const holder = open([victim]);
    const { toldAt, enteredAt, lease } = await successionOf(holder, open(followers), () =>
      victim.process.pause(),
    );
    victim.process.resume();
    expect(toldAt).toBeLessThanOrEqual(enteredAt);
    await sleep(TTL_MS);
    expect(lease.held).toBe(false);
  });
});

describe.skipIf(process.getuid?.() !== 0)("partitions", () => {
  test("scenario S14: a follower is cut off from the others, with its client", async () => {
    const { leader: head, followers } = await leader();
    const [lonely, third] = followers as [EtcdNode, EtcdNode];
    const host = (node: EtcdNode) => network?.hosts.find(({ address }) => address === node.host) as never;
    const { toldAt, enteredAt } = await successionOf(open([lonely]), open([head, third]), async () => {
      await network?.cut(host(lonely), host(head));
      await network?.cut(host(lonely), host(third));
    });
    await network?.heal();
    expect(toldAt).toBeLessThanOrEqual(enteredAt);
  });
});
