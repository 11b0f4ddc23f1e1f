import { setTimeout as sleep } from "node:timers/promises";
import { createLocks } from "locktender";
import { mysql } from "locktender/mysql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { WorkerBackend } from "#lib/testing/index.js";
import { askMariadb } from "../engines/mysql/server.js";
import { freePort } from "../servers/free-port.js";
import { installedIn } from "../servers/installed.js";
import { ensurePrograms } from "../servers/programs.js";
import { stopAll } from "../servers/server-process.js";
import { type MovingAddress, startAddress } from "./address.js";
import { GALERA_PROGRAM, type GaleraNode, GaleraServers } from "./galera-servers.js";
import { expectThroughFailovers } from "./harness.js";

const NODES = 3;

let servers: GaleraServers;
let addresses: MovingAddress[];

function backendAt(address: number, prefix: string): WorkerBackend {
  return {
    module: new URL("../engines/mysql/worker-backend.mjs", import.meta.url).href,
    args: { url: `mysql://tester@127.0.0.1:${addresses[address]?.port}/locks`, prefix },
  };
}

function nodeAt(address: number): GaleraNode {
  const node = servers.nodes.find(({ port }) => port === addresses[address]?.target);
  if (node === undefined) throw new Error(`address ${address} leads to no member`);
  return node;
}

// The library of the cluster is that of this machine, and so must be its server.
describe.skipIf(installedIn("mariadb") !== "/")("Galera", () => {
  beforeAll(async () => {
    await ensurePrograms([GALERA_PROGRAM]);
    servers = await GaleraServers.start(NODES);
    addresses = await Promise.all(servers.nodes.map(({ port }) => startAddress(port)));
  });
  afterAll(() => stopAll([servers, ...(addresses ?? [])]));

  test("all processes at one node, which is killed: one holder at a time", async () => {
    await expectThroughFailovers({
      setup: "all processes at one node, which is killed",
      promised: { overlaps: "none", leases: "kept" },
      server: await servers.version(),
      backend: backendAt(0, "one_node"),
      failovers: 2,
      prepare: async () => {
        if (servers.nodes.length < NODES) await servers.add();
      },
      failOver: async () => {
        await servers.crash(nodeAt(0));
        addresses[0]?.moveTo(servers.nodes[0]?.port ?? 0);
      },
    });
  });

  test("processes spread over three nodes, one of them killed and started anew: one holder at a time", async () => {
    for (const [index, { port }] of servers.nodes.entries()) addresses[index]?.moveTo(port);
    if (servers.nodes.length < NODES) addresses[NODES - 1]?.moveTo((await servers.add()).port);
    await expectThroughFailovers({
      setup: "processes at three nodes, one killed and started anew",
      promised: { overlaps: "none", leases: "kept" },
      server: await servers.version(),
      backend: (process) => backendAt(process % NODES, "spread"),
      failovers: 2,
      failOver: async (random) => {
        const victim = Math.floor(random() * NODES);
        await servers.crash(nodeAt(victim));
        // Its processes ask the new one from the beginning, also while it gets its data.
        const port = await freePort();
        addresses[victim]?.moveTo(port);
        await servers.add(port);
      },
    });
  });

  test("a node that is not ready yet (error 1047): a wait goes on until it is", async () => {
    const url = servers.nodes[0]?.url ?? "";
    await using locks = createLocks(mysql({ url, prefix: "not_ready" }), { ttl: "15s" });
    await locks.mutex("stock").run(() => undefined);
    // Answers as a node does that has just joined and is still getting its data.
    await askMariadb(url, "SET GLOBAL wsrep_reject_queries = ALL");
    const waiting = locks.mutex("stock").acquire({ wait: "15s" });
    waiting.catch(() => undefined);
    await sleep(2_000);
    await askMariadb(url, "SET GLOBAL wsrep_reject_queries = NONE");
    expect((await waiting).held).toBe(true);
  });
});
