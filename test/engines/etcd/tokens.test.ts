import { generateKeyPairSync } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Locks } from "locktender";
import { etcd } from "locktender/etcd";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { stopAll } from "../../servers/server-process.js";
import { etcdctl } from "./harness.js";
import { type Etcd, startEtcd } from "./server.js";

const { privateKey, publicKey } = generateKeyPairSync("rsa", {
  modulusLength: 2_048,
  privateKeyEncoding: { type: "pkcs1", format: "pem" },
  publicKeyEncoding: { type: "spki", format: "pem" },
});

let kept: Etcd;
let signed: Etcd;
beforeAll(async () => {
  [kept, signed] = await Promise.all([startEtcd(), startEtcd({ tokenKeys: { privateKey, publicKey } })]);
  for (const server of [kept, signed]) {
    await etcdctl(server.nodes, "user", "add", "root:admin");
    await etcdctl(server.nodes, "user", "grant-role", "root", "root");
    await etcdctl(server.nodes, "auth", "enable");
  }
});
afterAll(() => stopAll([kept, signed]));

const asAdmin = (server: Etcd, ...args: string[]) => etcdctl(server.nodes, "--user", "root:admin", ...args);

function open(server: Etcd): Locks {
  const url = server.url.replace("//", "//root:admin@");
  const locks = createLocks(etcd({ url }), { ttl: "2s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function authentications(server: Etcd): Promise<number> {
  const metrics = await (await fetch(`http://127.0.0.1:${server.nodes[0]?.port}/metrics`)).text();
  return Number(/^grpc_server_started_total\{grpc_method="Authenticate".*\} (\S+)$/m.exec(metrics)?.[1]);
}

describe("tokens that become void", () => {
  test("signed ones do so when any user changes: no caller notices", async () => {
    const locks = open(signed);
    const lease = await locks.mutex("held").acquire();
    const waiting = locks.mutex("held").acquire();
    await asAdmin(signed, "user", "add", "somebody:else");
    expect(await locks.mutex("another").run(() => "done")).toBe("done");
    await sleep(2_500);
    expect(lease.held).toBe(true);
    await lease.release();
    expect((await waiting).held).toBe(true);
  });

  test("all callers that are told of it share a new one", async () => {
    const locks = open(kept);
    await locks.mutex("warm").run(() => undefined);
    // Forgets all tokens.
    await asAdmin(kept, "auth", "disable");
    await etcdctl(kept.nodes, "auth", "enable");
    const before = await authentications(kept);
    const names = Array.from({ length: 20 }, (_, index) => `burst-${index}`);
    await Promise.all(names.map((name) => locks.mutex(name).run(() => undefined)));
    // The watch may be told later than the others, and so need one more.
    expect((await authentications(kept)) - before).toBeLessThanOrEqual(2);
  });
});
