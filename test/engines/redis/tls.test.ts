import { join } from "node:path";
import { Redis } from "ioredis";
import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Ended, run } from "../../core/program.js";
import { type Certificate, makeCertificate } from "../../servers/certificates.js";
import { stopAll } from "../../servers/server-process.js";
import {
  CERTIFICATE_FILE,
  type RedisCluster,
  type RedisSentinel,
  type RedisSingle,
  startRedisCluster,
  startRedisSentinel,
  startRedisSingle,
} from "./server.js";
import { LIBRARIES, queued } from "./tools.js";

/** Its only name is 127.0.0.1, and no machine trusts it by itself. */
let certificate: Certificate;
let servers: { single: RedisSingle; sentinel: RedisSentinel; cluster: RedisCluster };
beforeAll(async () => {
  certificate = await makeCertificate();
  const [single, sentinel, cluster] = await Promise.all([
    startRedisSingle(certificate),
    startRedisSentinel({ tls: certificate }),
    startRedisCluster({ tls: certificate }),
  ]);
  servers = { single, sentinel, cluster };
});
afterAll(() => stopAll(Object.values(servers)));

const TOPOLOGIES = ["single", "sentinel", "cluster"] as const;
const cases = LIBRARIES.flatMap((library) => TOPOLOGIES.map((topology) => ({ library, topology })));

/** A program that trusts the certificate, or does not. `options` are at hand in it. */
function program(options: object, source: string, trusting: boolean): Promise<Ended> {
  const env = trusting
    ? { NODE_EXTRA_CA_CERTS: join(servers.single.node.process.folder, CERTIFICATE_FILE) }
    : {};
  return run(`const options = ${JSON.stringify(options)};\n${source}`, { env });
}

/** How one question ends: `let in`, or the error's code, whether it is final, and what it says. */
async function ask(options: object, trusting: boolean, before = ""): Promise<string> {
  const { out, err, code } = await program(
    options,
    `
      ${before}
      const backend = redis(options);
      const asked = async () => { for await (const _ of backend.list({ name: "x" })); };
      await asked().then(
        () => console.log("let in"),
        (error) => console.log(error.code, error.retryable ? "may pass" : "final", error.message),
      );
      await backend.close();
    `,
    trusting,
  );
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return out;
}

describe.concurrent.each(cases)("rediss, $topology, by $library", ({ library, topology }) => {
  test("locks, is notified and lists, trusting the authority that NODE_EXTRA_CA_CERTS names", async () => {
    const { url } = servers[topology];
    const work = `
      const locks = createLocks(redis(options), { ttl: "60s" });
      const lease = await locks.mutex("x").acquire();
      const waiting = locks.mutex("x").acquire();
      while ((await locks.inspect("x")).waiters.length === 0) await sleep(10);
      await lease.release();
      const releasedAt = performance.now();
      const { token } = await waiting;
      console.log(token > lease.token, performance.now() - releasedAt < 5_000);
      for await (const { name, holders } of locks.list()) console.log(name, holders.length);
      await locks.close();
    `;
    const { code, out, err } = await program({ url, library, prefix: `tls-${library}` }, work, true);
    expect({ code, out, err }).toEqual({ code: 0, out: "true true\nx 1\n", err: "" });
  });

  test("connects to no server by a certificate that is not trusted, or that is another host's", async () => {
    const { url } = servers[topology];
    const [untrusted, otherHost] = await Promise.all([
      ask({ url, library }, false),
      ask({ url: url.replaceAll("127.0.0.1", "localhost"), library }, true),
    ]);
    expect([untrusted, otherHost]).toEqual([
      expect.stringMatching(/^backend/m),
      expect.stringMatching(/^backend/m),
    ]);
    // The clients of several servers do not always tell what was wrong with each of them.
    if (topology !== "single") return;
    expect(untrusted).toMatch(/^backend final .*self-signed certificate.*sslrootcert=/);
    expect(otherHost).toMatch(/^backend final .*does not match certificate/);
  });
});

/** As Node.js 22 and later do now and then, when the server complains about a connection that was just ended. */
const SECOND_ERROR = `
  const { TLSSocket } = await import("node:tls");
  const { emit } = TLSSocket.prototype;
  TLSSocket.prototype.emit = function (name, ...args) {
    const heard = emit.call(this, name, ...args);
    if (name === "error") process.nextTick(() => emit.call(this, "error", new Error("a second error")));
    return heard;
  };
`;

test.concurrent.each(cases)(
  "a second error of a refused connection ends no process, $topology by $library",
  async ({ library, topology }) => {
    const { url } = servers[topology];
    expect(await ask({ url, library }, false, SECOND_ERROR)).toMatch(/^backend/);
  },
);

test.concurrent.each(LIBRARIES)("TLS on one side only is a typed error, by %s", async (library) => {
  const { port, plainPort } = servers.single.node;
  const [withoutTls, toPlainServer] = await Promise.all([
    ask({ url: `redis://127.0.0.1:${port}`, library }, true),
    ask({ url: `rediss://127.0.0.1:${plainPort}`, library }, true),
  ]);
  expect(withoutTls).toMatch(/^backend may pass .*rediss/);
  expect(toPlainServer).toMatch(/^backend final .*answers without TLS.*redis:\/\//);
});

describe("a client that the caller brings, with an authority of its own", () => {
  const address = () => ({ host: "127.0.0.1", port: servers.single.node.port });
  const BROUGHT = {
    ioredis: async (ca: string) => {
      const client = new Redis({ ...address(), tls: { ca } });
      onTestFinished(() => client.disconnect());
      return client;
    },
    redis: async (ca: string) => {
      const client = createClient({
        socket: { ...address(), tls: true, ca },
      });
      await client.connect();
      onTestFinished(() => client.destroy());
      return client;
    },
  };

  test.each(LIBRARIES)("locks and is notified, by %s", async (library) => {
    const client = await BROUGHT[library](certificate.cert);
    const locks = createLocks(redis({ client, prefix: `brought-${library}` }), { ttl: "60s" });
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    const lease = await locks.mutex("x").acquire();
    const waiting = locks.mutex("x").acquire();
    await queued(locks, "x", 1);
    await lease.release();
    const releasedAt = performance.now();
    expect((await waiting).held).toBe(true);
    expect(performance.now() - releasedAt, "sooner than by a poll").toBeLessThan(5_000);
  });
});
