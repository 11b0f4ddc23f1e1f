import { createHash } from "node:crypto";
import { connect, createLocks, isLockError, type Locks } from "locktender";
import { type ZooKeeperOptions, zookeeper } from "locktender/zookeeper";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { MODE, OPEN_ACL } from "#lib/backends/zookeeper/messages.js";
import { makeCertificate } from "../../servers/certificates.js";
import { freePort } from "../../servers/free-port.js";
import { startZooKeeper, type ZooKeeper } from "./server.js";
import { TestClient } from "./test-client.js";

const SECRET = "s3cret-and-long";

let server: ZooKeeper;
beforeAll(async () => {
  server = await startZooKeeper();
});
afterAll(() => server.stop());

let names = 0;
let name: string;
beforeEach(() => {
  name = `access-${++names}`;
});

function open(options: Partial<ZooKeeperOptions> = {}): Locks {
  const locks = createLocks(zookeeper({ url: server.url, timeout: "1s", ...options }));
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

const withUser = (user: string, password: string): string =>
  server.url.replace("://", `://${user}:${password}@`);

async function failureOf(locks: Locks): Promise<Error> {
  const error = await locks
    .mutex(name)
    .tryAcquire()
    .then(() => undefined)
    .catch((thrown: unknown) => thrown);
  if (!isLockError(error, "backend")) throw new Error("it should have failed", { cause: error });
  expect(error.message).not.toContain(SECRET);
  return error;
}

describe("users and rights", () => {
  test("with a user and a password, no other user can touch what we make", async () => {
    const prefix = "guarded";
    const [ada, same] = [1, 2].map(() => open({ url: withUser("ada", SECRET), prefix }));
    const lease = await (ada as Locks).mutex(name).acquire({ note: "mine" });
    expect((await (same as Locks).inspect(name)).holders[0]?.note).toBe("mine");
    for (const url of [server.url, withUser("eve", SECRET), withUser("ada", "wrong")]) {
      const error = await failureOf(open({ url, prefix }));
      expect(error).toMatchObject({ retryable: false });
      expect(error.message).toMatch(/NoAuth.*Check the user name and the password/);
    }
    expect(await lease.release()).toBe(true);
  });

  test("all that a user needs is the right to create in its chroot", async () => {
    const client = await TestClient.open(server.url);
    onTestFinished(() => client.close());
    const persistent = 0;
    const [create, all] = [4, 31];
    const only = (user: string, permissions: number) => {
      const hash = createHash("sha1").update(`${user}:${SECRET}`).digest("base64");
      return [{ permissions, scheme: "digest", id: `${user}:${hash}` }];
    };
    // Above it, this user may do nothing at all.
    await client.create("/office", persistent, only("admin", all));
    const admin = await TestClient.open(withUser("admin", SECRET));
    onTestFinished(() => admin.close());
    await admin.create("/office/shop", persistent, only("ada", create));
    const url = `${withUser("ada", SECRET)}/office/shop`;
    const [locks, operator] = [open({ url }), open({ url })];
    const lease = await locks.mutex(name).acquire({ note: "mine" });
    expect(await operator.mutex(name).tryAcquire()).toBe(null);
    const waiting = operator.mutex(name).acquire();
    await lease.update({ note: "still mine" });
    const found: string[] = [];
    for await (const one of operator.list({ prefix: "" })) found.push(one.name);
    expect(found).toEqual([name]);
    expect(await operator.forceRelease(name, { reason: "must go" })).toHaveLength(1);
    await expect.poll(() => lease.signal.reason?.reason).toBe("must go");
    expect(await (await waiting).release()).toBe(true);
    expect((await failureOf(open({ url: `${server.url}/office/shop` }))).message).toContain("NoAuth");
  });

  test("acl: open lets every user in, though there is a user", async () => {
    const prefix = "shared";
    await open({ url: withUser("ada", SECRET), prefix, acl: "open" })
      .mutex(name)
      .acquire();
    expect(await open({ prefix }).mutex(name).tryAcquire()).toBe(null);
  });

  test("a claim cannot make an operator write where it may not", async () => {
    const client = await TestClient.open(server.url);
    onTestFinished(() => client.close());
    const operator = open();
    await (await operator.mutex(name).acquire()).release();
    const precious = `/precious-${name}`;
    await client.create(precious, MODE.ephemeral, OPEN_ACL, "kept");
    const value = JSON.stringify({ owner: { instance: "eve", host: "h", pid: 1 }, note: "", bell: precious });
    const node = `/locktender/${name}/_c_eve-1of1-lock-`;
    await client.create(node, MODE.ephemeralSequential, OPEN_ACL, value);
    expect(await operator.forceRelease(name, { reason: "must go" })).toHaveLength(1);
    expect(await client.data(precious)).toBe("kept");
    expect((await operator.inspect(name)).holders).toEqual([]);
  });

  test("invalid input is refused, and nothing secret is repeated", () => {
    const bad: object[] = [
      { url: "zookeeper://ada@h" },
      { url: `zookeeper://a%3Ada:${SECRET}@h` },
      { url: `zookeepers://ada:${SECRET}@h`, tls: { cert: "x" } },
      { url: "zookeepers://h", tls: { cert: "x", key: "y" } },
      { url: "zookeeper://h", tls: {} },
      { url: "zookeeper://h", acl: "creator" },
      { url: "zookeeper://h", acl: "all" },
      { url: "zookeeper://h", prefix: "a/../b" },
      { url: "zookeeper://h/a%00b" },
      { url: `http://ada:${SECRET}@h` },
      { url: "zookeeper://h", timeout: 0 },
      { url: "zookeeper://h", sessionTimeout: "5s" },
    ];
    for (const options of bad) {
      let error: unknown;
      try {
        zookeeper(options as ZooKeeperOptions);
      } catch (thrown) {
        error = thrown;
      }
      expect(error, JSON.stringify(options)).toMatchObject({ code: "invalid-option" });
      expect((error as Error).message).not.toContain(SECRET);
    }
  });
});

describe("servers that do not answer", () => {
  test("no server listens: it says so", async () => {
    const url = `zookeeper://ada:${SECRET}@127.0.0.1:${await freePort()}`;
    const error = await failureOf(open({ url }));
    expect(error).toMatchObject({ retryable: true });
    expect(error.message).toMatch(/ECONNREFUSED\. Are the servers running/);
    await expect(connect(url)).rejects.toMatchObject({ code: "backend" });
  });

  test("an ensemble without a majority: it says so", async () => {
    const ensemble = await startZooKeeper({ members: 3 });
    onTestFinished(() => ensemble.stop());
    const [, second, third] = ensemble.nodes;
    await Promise.all([second?.process.kill(), third?.process.kill()]);
    const url = `zookeeper://127.0.0.1:${ensemble.nodes[0]?.port}`;
    await expect
      .poll(async () => (await failureOf(open({ url }))).message, { timeout: 10_000 })
      .toMatch(/no quorum|no answer within/);
  });

  test("something else listens there: it says so", async () => {
    const { createServer } = await import("node:net");
    const other = createServer((socket) => void socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")).listen(0);
    onTestFinished(() => void other.close());
    const { port } = other.address() as { port: number };
    const error = await failureOf(open({ url: `zookeeper://127.0.0.1:${port}` }));
    expect(error.message).toContain("does not speak ZooKeeper's language");
  });
});

describe("where the locks are", () => {
  test("below the chroot of the url, and a prefix of its own", async () => {
    const locks = await connect(`${server.url}/apps/shop`, { prefix: "locks" });
    onTestFinished(() => locks.close());
    await locks.mutex(name).acquire();
    const client = await TestClient.open(server.url);
    expect(await client.children(`/apps/shop/locks/${name}`)).toHaveLength(1);
    await client.close();
  });

  test("with no prefix and no chroot they are at the root of the tree", async () => {
    const locks = open({ prefix: "" });
    expect(await locks.mutex("zookeeper").tryAcquire()).not.toBe(null);
    await locks.mutex(name).acquire({ note: "at the root" });
    const found: string[] = [];
    for await (const one of locks.list({ prefix: name })) found.push(one.name);
    expect(found).toEqual([name]);
  });

  test("a name whose node has vanished meanwhile gets a new one, and its tokens still grow", async () => {
    const locks = open();
    const client = await TestClient.open(server.url);
    onTestFinished(() => client.close());
    const first = await locks.mutex(name).run((lease) => lease.token);
    await expect.poll(() => client.children("/locktender"), { timeout: 20_000 }).not.toContain(name);
    expect(await locks.mutex(name).run((lease) => lease.token)).toBeGreaterThan(first);
  });

  test("whatever core accepts as a name has a node", async () => {
    const locks = open();
    const odd = [
      ".",
      "..",
      "a/b",
      "/",
      "%",
      "😀",
      "\ue000",
      "\uffff",
      "x".repeat(255),
      "%".repeat(255),
      "zookeeper",
    ];
    const leases = await Promise.all(odd.map((one) => locks.mutex(one).tryAcquire()));
    expect(leases.every((lease) => lease !== null)).toBe(true);
    const found: string[] = [];
    for await (const one of locks.list({ prefix: "" })) found.push(one.name);
    expect(found.sort()).toEqual(expect.arrayContaining(odd.sort()));
  });

  test("when the clients are gone, nothing is left in the tree", async () => {
    const prefix = `${name}/deep`;
    const locks = open({ prefix });
    await Promise.all([1, 2, 3].map((index) => locks.mutex(`${name}-${index}`).run(() => undefined)));
    await locks.mutex(name).acquire();
    await locks.close();
    const client = await TestClient.open(server.url);
    onTestFinished(() => client.close());
    await expect.poll(() => client.children("/"), { timeout: 20_000 }).not.toContain(name);
  });
});

describe("TLS", () => {
  test("zookeepers:// talks to a secure port, and to no other server than the one that was signed", async () => {
    const { cert, key } = await makeCertificate();
    const port = await freePort();
    const secure = await startZooKeeper({
      config: [
        `secureClientPort=${port}`,
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location=store.pem",
        "ssl.trustStore.location=cert.pem",
        "ssl.clientAuth=none",
      ],
      files: { "store.pem": `${key}${cert}`, "cert.pem": cert },
    });
    onTestFinished(() => secure.stop());
    const url = `zookeepers://127.0.0.1:${port}`;
    const locks = open({ url, tls: { ca: cert } });
    expect(await locks.mutex(name).run((lease) => lease.held)).toBe(true);
    const stranger = await failureOf(open({ url }));
    expect(stranger).toMatchObject({ retryable: false });
    expect(stranger.message).toMatch(/tls: \{ ca \}.*sslrootcert=.*sslmode=no-verify/);
    const plain = await failureOf(open({ url: server.url.replace("://", "s://") }));
    expect(plain.message).toMatch(/does it speak TLS at this port/);
    const withoutTls = await failureOf(open({ url: `zookeeper://127.0.0.1:${port}` }));
    expect(withoutTls.message).toMatch(/zookeepers:\/\//);
    const named = open({ url: `${url}?sslrootcert=${secure.nodes[0]?.process.folder}/cert.pem` });
    expect(await named.mutex(name).run((lease) => lease.held)).toBe(true);
    const unchecked = open({ url: `${url}?sslmode=no-verify` });
    expect(await unchecked.mutex(name).run((lease) => lease.held)).toBe(true);
    expect(unchecked.guarantees.caveats.join("\n")).toMatch(/not checked \(no-verify/);
  });
});
