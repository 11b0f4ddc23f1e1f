import { inspect } from "node:util";
import { connect, createLocks, type Locks } from "locktender";
import { type EtcdOptions, etcd } from "locktender/etcd";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Certificates, makeCertificates } from "../../servers/certificates.js";
import { stopAll } from "../../servers/server-process.js";
import { etcdctl } from "./harness.js";
import { type Etcd, startEtcd } from "./server.js";

const SECRET = "s3cr3t";

let plain: Etcd;
let guarded: Etcd;
let encrypted: Etcd;
let certificates: Certificates;
beforeAll(async () => {
  certificates = await makeCertificates();
  [plain, guarded, encrypted] = await Promise.all([startEtcd(), startEtcd(), startEtcd({ certificates })]);
  const admin = (...args: string[]) => etcdctl(guarded.nodes, ...args);
  await admin("user", "add", "root:admin");
  await admin("user", "add", `shop:${SECRET}`);
  await admin("user", "add", `guest:${SECRET}`);
  await admin("role", "add", "locks");
  // The rights that docs/engines/etcd.md lists.
  await admin("role", "grant-permission", "locks", "--prefix=true", "readwrite", "locktender/");
  await admin("user", "grant-role", "shop", "locks");
  await admin("user", "grant-role", "root", "root");
  await admin("auth", "enable");
});
afterAll(() => stopAll([plain, guarded, encrypted]));

function open(options: EtcdOptions): Locks {
  const locks = createLocks(etcd(options), { ttl: "5s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

function at(server: Etcd, user = ""): string {
  return `etcd://${user}127.0.0.1:${server.nodes[0]?.port}`;
}

describe("invalid input is refused at once, and no secret is repeated", () => {
  test.each([
    "etcd://user:s3cr3t@",
    "etcd://user:s3cr3t@h:99999",
    "etcd://user:s3cr3t@h/path",
    "etcd://user@h",
    "etcd://user:s3cr3t@h@i",
    "etcd://h1,,h2",
    "etcd:h",
  ])("%s", async (url) => {
    const error = await connect(url.endsWith("@") ? `${url}:x` : url).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "invalid-option" });
    expect(inspect(error)).not.toContain(SECRET);
  });

  test.each([
    { prefix: "a/" },
    { prefix: "a%b" },
    { prefix: "x".repeat(101) },
    { timeout: "0s" },
    { tls: { ca: "x" } },
    { url: "etcds://h", tls: { cert: "x" } },
    { url: "etcds://h", tls: { ca: 5 } },
    { url: "etcds://h", tls: { cert: "x", key: "x" } },
    { colour: "blue" },
  ])("%j", (options) => {
    expect(() => etcd({ url: "etcd://h", ...options } as EtcdOptions)).toThrow(
      expect.objectContaining({ code: "invalid-option" }),
    );
  });
});

describe("whom the servers do not let in", () => {
  test.each([
    ["no server listens there", "etcd://127.0.0.1:1", /reachable/],
    ["there is no such host", "etcd://no-such-host.invalid", /reachable/],
  ])("%s: told promptly, with advice", async (_, url, advice) => {
    await expect(connect(url)).rejects.toMatchObject({
      code: "backend",
      retryable: true,
      message: expect.stringMatching(advice),
    });
  });

  test("a wrong password, no user where one is wanted, and a user where none is known", async () => {
    const told = async (url: string) => {
      const error = await connect(url).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "backend", retryable: false });
      expect(inspect(error, { depth: 9 })).not.toContain(SECRET);
      return (error as Error).message;
    };
    expect(await told(at(guarded, `shop:${SECRET}x@`))).toMatch(/Check the user name/);
    expect(await told(at(guarded))).toMatch(/want a user/);
    expect(await told(at(plain, `shop:${SECRET}@`))).toMatch(/Leave the user out/);
  });

  test("a user without the right to our keys", async () => {
    await expect(connect(at(guarded, `guest:${SECRET}@`))).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(/docs\/engines\/etcd\.md/),
    });
  });

  test("a user with just the documented rights can do everything", async () => {
    const [shop, cron] = [1, 2].map(() => open({ url: at(guarded, `shop:${SECRET}@`) })) as [Locks, Locks];
    const lease = await shop.mutex("lamp").acquire();
    const waiting = cron.mutex("lamp").acquire();
    await expect.poll(async () => (await shop.inspect("lamp")).waiters.length).toBe(1);
    await lease.update({ note: "here" });
    expect(await shop.forceRelease("lamp", { reason: "test" })).toHaveLength(1);
    await expect.poll(() => lease.signal.aborted).toBe(true);
    const next = await waiting;
    expect(await next.release()).toBe(true);
    expect(await cron.mutex("lamp").run({ renew: false }, () => "done")).toBe("done");
  });
});

describe("TLS", () => {
  const secure = () => at(encrypted).replace("etcd:", "etcds:");

  test("with a certificate on both sides", async () => {
    const { ca, client } = certificates;
    const locks = open({ url: secure(), tls: { ca, ...client } });
    expect(await locks.mutex("x").run((lease) => lease.held)).toBe(true);
  });

  test.each([
    ["an unknown signer", () => ({ ...certificates.client })],
    ["no certificate of the client's", () => ({ ca: certificates.ca })],
  ])("%s is an error, and no hang", async (_, tls) => {
    const locks = open({ url: secure(), tls: tls() });
    await expect(locks.mutex("x").acquire({ wait: "1s" })).rejects.toMatchObject({ code: "backend" });
  });
});

describe("what the engine gives instead", () => {
  test("a ttl below the servers' shortest is raised, and what was granted is shown", async () => {
    const lease = await open({ url: at(plain) })
      .mutex("short")
      .acquire({ ttl: 100 });
    expect(lease.remainingMs()).toBeGreaterThan(500);
    expect(lease.remainingMs()).toBeLessThanOrEqual(1_000);
  });

  test("nothing is left behind when the clients are gone", async () => {
    const options = { url: at(plain), prefix: "left" };
    const [locks, others] = [open(options), open(options)];
    const lease = await locks.mutex("x").acquire();
    const waiting = others.mutex("x").acquire();
    waiting.catch(() => undefined);
    await expect.poll(async () => (await locks.inspect("x")).waiters.length).toBe(1);
    await locks.forceRelease("x", { reason: "test" });
    await (await waiting).release();
    expect(await lease.release()).toBe(false);
    await others.mutex("y").run({ renew: false, ttl: "2s" }, () => undefined);
    await Promise.all([locks.close(), others.close()]);
    const left = await etcdctl(plain.nodes, "get", "--prefix", "left/", "--keys-only");
    // The word for the victim of a forced release stays for a minute.
    expect(left.split("\n").filter((key) => key !== "" && !key.includes("%forced"))).toEqual([]);
  });
});
