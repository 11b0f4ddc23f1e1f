import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { closedError } from "#lib/backends/zookeeper/errors.js";
import {
  create,
  getChildren,
  getData,
  getEphemerals,
  type Handshake,
  MODE,
  multi,
  OPEN_ACL,
  remove,
  setData,
} from "#lib/backends/zookeeper/messages.js";
import { readZooKeeperOptions } from "#lib/backends/zookeeper/options.js";
import { Wire } from "#lib/backends/zookeeper/wire.js";
import { startZooKeeper, type ZooKeeper, type ZooKeeperNode } from "./server.js";

const NOTHING = Buffer.alloc(0);
const NEW: Handshake = { lastZxid: 0n, timeoutMs: 5_000, sessionId: 0n, password: Buffer.alloc(16) };

const TURNED_AWAY = /closes connections at once/;

let ensemble: ZooKeeper;
beforeAll(async () => {
  ensemble = await startZooKeeper({ members: 3 });
});
afterAll(() => ensemble.stop());

const node = (path: string, mode: number = MODE.ephemeral) => create(path, NOTHING, OPEN_ACL, mode);

type Connected = Awaited<ReturnType<typeof connect>>;

async function connect(server: ZooKeeperNode | undefined, handshake = NEW) {
  if (server === undefined) throw new Error("there is no such server");
  const events: string[] = [];
  const opened = await Wire.open(readZooKeeperOptions({ url: ensemble.url }), server, handshake, 2_000);
  if (opened === undefined) throw new Error("the session is over");
  opened.wire.listen({
    answered: () => {},
    proven: () => {},
    changed: (path, deleted) => events.push(`${path} ${deleted ? "deleted" : "changed"}`),
    lost: () => events.push("lost"),
  });
  onTestFinished(() => opened.wire.close(closedError()));
  return { ...opened, events };
}

/** A server that has not yet seen what the session has seen turns it away; the library asks the next one, then. */
async function moved(server: ZooKeeperNode | undefined, { session, wire }: Connected) {
  const handshake = { ...session, lastZxid: wire.lastZxid };
  const end = performance.now() + 10_000;
  for (;;) {
    try {
      return await connect(server, handshake);
    } catch (error) {
      if (!TURNED_AWAY.test(String(error)) || performance.now() > end) throw error;
      await sleep(20);
    }
  }
}

describe("what the code relies on", () => {
  test("all parts of a multi are one change: the container and the claim in it have one czxid", async () => {
    const { wire } = await connect(ensemble.nodes[0]);
    const both = [node("/one", MODE.container), node("/one/claim-", MODE.ephemeralSequential)];
    const [container, claim] = await wire.send(multi(both));
    const { stat } = await wire.send(getData(claim?.path ?? "", false));
    expect(claim?.path).toBe("/one/claim-0000000000");
    expect(stat.czxid).toBe(container?.stat?.czxid);
  });

  test("a multi whose first part fails does nothing", async () => {
    const { wire } = await connect(ensemble.nodes[0]);
    await wire.send(node("/two", MODE.container));
    const results = await wire.send(multi([node("/two", MODE.container), node("/two/claim")]));
    expect(results[0]?.error).toBe(-110);
    expect(await wire.send(getChildren("/two"))).toEqual([]);
  });

  test("when a session has come to another server, what the one before still sends is not executed", async () => {
    const [first, second] = ensemble.nodes;
    const before = await connect(first);
    await before.wire.send(node("/three", MODE.container));
    const after = await moved(second, before);
    // As if it had been on its way all the time: neither side has closed this connection.
    await expect(before.wire.send(node("/three/late"))).rejects.toThrow(/SessionMoved|closed/);
    await after.wire.send(node("/three/own"));
    expect(await after.wire.send(getChildren("/three"))).toEqual(["own"]);
  });

  test("when a session comes to the same server again, the connection of before is ended", async () => {
    const [server] = ensemble.nodes;
    const before = await connect(server);
    await moved(server, before);
    await expect.poll(() => before.events).toEqual(["lost"]);
    await expect(before.wire.send(node("/late"))).rejects.toThrow(/closed/);
  });

  test("a server that is behind what the session has seen closes the connection, and does not end the session", async () => {
    const [server] = ensemble.nodes;
    const before = await connect(server);
    await before.wire.send(node("/seen"));
    const ahead = { ...before.session, lastZxid: before.wire.lastZxid + 1_000_000n };
    await expect(connect(server, ahead)).rejects.toThrow(TURNED_AWAY);
    await before.wire.send(remove("/seen"));
  });

  test("a session sees what it has itself written, and all its nodes, on whatever server", async () => {
    for (const [index, server] of ensemble.nodes.entries()) {
      const { wire } = await connect(server);
      const path = `/own-${index}`;
      const [, nodes] = await Promise.all([wire.send(node(path)), wire.send(getEphemerals("/own-"))]);
      expect(nodes).toEqual([path]);
    }
  });

  test("a watch of getData tells of a change and of a deletion, once, and before the answer", async () => {
    const { wire, events } = await connect(ensemble.nodes[0]);
    await wire.send(node("/watched"));
    await wire.send(getData("/watched", true));
    await wire.send(setData("/watched", Buffer.from("x")));
    expect(events).toEqual(["/watched changed"]);
    await wire.send(setData("/watched", Buffer.from("y")));
    await wire.send(getData("/watched", true));
    await wire.send(remove("/watched"));
    expect(events).toEqual(["/watched changed", "/watched deleted"]);
  });

  test("a container vanishes when its last child has gone, and not before it had one", async () => {
    const { wire } = await connect(ensemble.nodes[0]);
    await Promise.all(
      [node("/used", MODE.container), node("/new", MODE.container)].map((one) => wire.send(one)),
    );
    await wire.send(node("/used/child"));
    await wire.send(remove("/used/child"));
    await expect.poll(() => wire.send(getChildren("/")), { timeout: 10_000 }).not.toContain("used");
    await sleep(1_000);
    expect(await wire.send(getChildren("/"))).toContain("new");
  });
});
