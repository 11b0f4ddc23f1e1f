import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type Locks } from "locktender";
import { redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Certificate, makeCertificate } from "../../servers/certificates.js";
import { stopAll } from "../../servers/server-process.js";
import { askRedis, type RedisSingle, startRedisServers, startRedisSingle } from "./server.js";
import { LIBRARIES } from "./tools.js";

let certificate: Certificate;
let folder: string;
let open: RedisSingle;
let secure: RedisSingle;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "locktender-redis-"));
  certificate = await makeCertificate();
  await writeFile(join(folder, "ca.pem"), certificate.cert);
  [open, secure] = await Promise.all([startRedisSingle(), startRedisSingle(certificate)]);
  for (const { node } of [open, secure]) {
    const port = node.plainPort;
    await askRedis(port, "ACL", "SETUSER", "free", "on", "nopass", "allkeys", "allchannels", "+@all");
    await askRedis(port, "ACL", "SETUSER", "app", "on", ">s3cr3t", "allkeys", "allchannels", "+@all");
  }
});
afterAll(async () => {
  await stopAll([open, secure]);
  await rm(folder, { recursive: true, force: true });
});

/** Locks that are closed with the test. */
async function opened(url: string, options: Parameters<typeof connect>[1] = {}): Promise<Locks> {
  const locks = await connect(url, options);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function works(locks: Locks): Promise<void> {
  expect(await locks.mutex("a").run((lease) => lease.held)).toBe(true);
}

/** The clients that are connected to that server as that user, in that database. */
async function clients(port: number, user: string, db = 0): Promise<number> {
  const list = String(await askRedis(port, "CLIENT", "LIST")).split("\n");
  return list.filter((line) => line.includes(`user=${user} `) && line.includes(` db=${db} `)).length;
}

describe.each(LIBRARIES)("by %s, a URL as it is handed out", (library) => {
  test.each([
    ["user and password", "redis://app:s3cr3t@HOST", "app", 0],
    ["a user only", "redis://free@HOST", "free", 0],
    ["a password as a parameter, and a database", "redis://app@HOST?password=s3cr3t&db=2", "app", 2],
    ["both kinds of addresses", "redis://app:s3cr3t@HOST/3?family=0", "app", 3],
    ["another scheme", "valkey://app:s3cr3t@HOST/1", "app", 1],
    ["settings of other tools", "redis://free@HOST?protocol=3&socket_timeout=5&max_connections=2", "free", 0],
  ])("with %s is taken as it is", async (_, url, user, db) => {
    const { port } = open.node;
    const before = await clients(port, user, db);
    const locks = await opened(url.replace("HOST", `127.0.0.1:${port}`), { engine: { library } });
    await works(locks);
    expect(await clients(port, user, db)).toBeGreaterThan(before);
  });

  test("with a password only is taken as it is", async () => {
    const server = await startRedisSingle();
    onTestFinished(() => server.stop());
    await askRedis(server.node.port, "CONFIG", "SET", "requirepass", "only");
    for (const start of ["redis://:only@", "redis://default:only@"]) {
      await works(await opened(`${start}127.0.0.1:${server.node.port}`, { engine: { library } }));
    }
  });

  test("with TLS: an unknown authority is refused, and the error names all three ways out", async () => {
    const url = `rediss://app:s3cr3t@127.0.0.1:${secure.node.port}`;
    await expect(opened(url, { engine: { library } })).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(
        /connect\(url, \{ engine: \{ tls: \{ ca \} \} \}\).*sslrootcert=.*sslmode=no-verify/,
      ),
    });
    const { cert: ca } = certificate;
    await works(await opened(url, { engine: { library, tls: { ca } } }));
    await works(await opened(`${url}?sslrootcert=${folder}/ca.pem`, { engine: { library } }));
    await works(await opened(`${url}?ssl_ca_certs=${folder}/ca.pem`, { engine: { library } }));
    const other = `${url.replace("127.0.0.1", "localhost")}?sslrootcert=${folder}/ca.pem`;
    await expect(opened(other, { engine: { library } })).rejects.toMatchObject({
      message: expect.stringMatching(/name the host/),
    });
    await works(await opened(`${other}&sslmode=verify-ca`, { engine: { library } }));
  });

  test.each(["sslmode=no-verify", "ssl_cert_reqs=none", "ssl_cert_reqs=CERT_NONE"])(
    "%s lets any certificate pass, and is among the caveats",
    async (query) => {
      const url = `rediss://app:s3cr3t@127.0.0.1:${secure.node.port}?${query}`;
      const locks = await opened(url, { engine: { library } });
      await works(locks);
      expect(locks.guarantees.caveats.join("\n")).toMatch(/not checked \(no-verify/);
    },
  );

  test("a Unix socket is a scheme, or a host", async () => {
    const path = join(folder, `${library}.sock`);
    const { nodes, stop } = await startRedisServers(1, { config: [`unixsocket ${path}`] });
    onTestFinished(stop);
    const port = nodes[0]?.port ?? 0;
    await askRedis(port, "ACL", "SETUSER", "app", "on", ">s3cr3t", "allkeys", "allchannels", "+@all");
    for (const url of [
      `redis+unix://app:s3cr3t@${path}?db=1`,
      `redis://app:s3cr3t@${encodeURIComponent(path)}/1`,
    ]) {
      const locks = await opened(url, { engine: { library } });
      await works(locks);
      expect(await clients(port, "app", 1)).toBeGreaterThan(0);
      // Notified by a connection of its own, which goes the same way.
      const lease = await locks.mutex("b").acquire();
      const waiting = locks.mutex("b").acquire();
      await expect.poll(async () => (await locks.inspect("b")).waiters.length).toBe(1);
      await lease.release();
      await (await waiting).release();
    }
    const away = opened(`redis+unix://${path}.none`, { engine: { library } });
    await expect(away).rejects.toMatchObject({ message: expect.stringContaining(`${path}.none`) });
  });

  test("parameters that are options do what the option does", async () => {
    const { port } = open.node;
    await works(
      await opened(`redis://127.0.0.1:${port}?library=${library}&prefix=urls-${library}&timeout=1s`),
    );
    expect(await askRedis(port, "KEYS", `urls-${library}:*`)).not.toEqual([]);
    const replicated = await opened(`redis://127.0.0.1:${port}?library=${library}&replicas=1&timeout=200ms`);
    await expect(replicated.mutex("r").acquire({ wait: 0 })).rejects.toMatchObject({
      message: expect.stringMatching(/only 0 of 1 replicas/),
    });
  });
});

test.each([
  ["redis://:s3cr3t@h?sslmod=require", /"sslmod".*Known are: .*sslmode.*db.*family/],
  ["redis://u:s3cr3t@:17001", /it names no host/],
  ["redis://:17001", /it names no host/],
  ["redis://:s3cr3t@h?sslmode=require", /rediss:\/\/ or not/],
  ["rediss://:s3cr3t@h?sslmode=disable", /rediss:\/\/ or not/],
  ["valkey://:s3cr3t@h?sslmode=require", /valkeys:\/\/ or not/],
  ["redis+cluster://:s3cr3t@h?sslmode=require", /rediss\+cluster:\/\/ or not/],
  ["redis://:s3cr3t@h?sslrootcert=x", /needs a rediss:\/\/ URL/],
  ["rediss://:s3cr3t@h?sslmode=no-verify&sslrootcert=/etc/hostname", /tls: /],
  ["redis://:s3cr3t@h?tls=true", /"tls"/],
  ["redis://:s3cr3t@h?keyPrefix=x", /"keyPrefix"/],
  ["redis://:s3cr3t@h/1?db=2", /two databases/],
  ["redis://:s3cr3t@h?family=5", /family in the URL must be 0 or 4 or 6/],
  ["redis://:s3cr3t@h?eviction=perhaps", /eviction: must be/],
  ["redis://:s3cr3t@h?timeout=1s&timeout=2s", /timeout is given twice/],
  ["redis://u:s3cr3t@", /names no host/],
  ["redis://u:s3cr3t@/1", /names no host/],
  ["redis://", /names no host/],
  ["redis+unix://:s3cr3t@host/x.sock", /redis\+unix:\/\/\//],
  ["redis+unix://:s3cr3t@", /redis\+unix:\/\/\//],
  ["rediss://:s3cr3t@%2Frun%2Fx.sock", /Unix socket .* no TLS/],
  ["redis://:s3c?r3t@h", /\? is written %3F/],
])("%s is refused, and the error says why", (url, message) => {
  const open = () => redis({ url });
  expect(open).toThrow(
    expect.objectContaining({ code: "invalid-option", message: expect.stringMatching(message) }),
  );
  expect(open).not.toThrow(/s3c/);
});
