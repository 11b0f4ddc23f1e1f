import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { readEtcdOptions } from "#lib/backends/etcd/options.js";
import { EtcdRpc } from "#lib/backends/etcd/rpc.js";
import { type PrivateHost, PrivateNetwork } from "../../servers/private-network.js";
import { roles } from "./ensemble.js";
import { type Etcd, type EtcdNode, startEtcd } from "./server.js";

const network = await PrivateNetwork.create(3);

function connect(nodes: readonly EtcdNode[]): EtcdRpc {
  const url = `etcd://${nodes.map(({ host, port }) => `${host}:${port}`).join(",")}`;
  const rpc = new EtcdRpc(readEtcdOptions({ url, timeout: "10s" }), () => {});
  onTestFinished(() => rpc.close());
  return rpc;
}

describe.skipIf(network === undefined)("what the code relies on [needs root, for network namespaces]", () => {
  const net = network as PrivateNetwork;
  const hostOf = (node: EtcdNode) => net.hosts.find(({ address }) => address === node.host) as PrivateHost;
  let ensemble: Etcd;
  beforeAll(async () => {
    ensemble = await startEtcd({ hosts: net.hosts });
  });
  afterAll(async () => {
    await ensemble.stop();
    await net.stop();
  });

  test("a leader that was stopped and resumed keeps leases alive that are gone: only a read shows it", async () => {
    const { leader, followers } = await roles(ensemble);
    const [rpc, others] = [connect([leader]), connect(followers)];
    const key = Buffer.from("kept");
    const { ID: lease } = await rpc.grantLease(60);
    await rpc.txn({ success: [{ request_put: { key, value: key, lease } }] });
    leader.process.pause();
    // Else it would now and then hear of its successor before it hears us.
    for (const follower of followers) await net.cut(hostOf(leader), hostOf(follower));
    const revoked = async () => others.revokeLease(lease).then(() => true);
    await expect.poll(() => revoked().catch(() => false), { timeout: 15_000 }).toBe(true);
    const asked = Promise.all([rpc.keepAlive(lease), rpc.timeToLive(lease, true)]);
    leader.process.resume();
    const [beat, { keys }] = await asked;
    expect(beat.TTL).toBe("60");
    expect(keys).toEqual([key]);
    await net.heal();
    const read = () => rpc.range({ key }).catch(() => undefined);
    await expect.poll(read, { timeout: 15_000 }).toMatchObject({ count: "0" });
    expect(Number((await read())?.header.raft_term)).toBeGreaterThan(Number(beat.header.raft_term));
  });
});
