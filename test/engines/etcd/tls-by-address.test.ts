import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { connect, createLocks } from "locktender";
import { etcd } from "locktender/etcd";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { compiled, run } from "../../core/program.js";
import { type Certificates, makeCertificates } from "../../servers/certificates.js";
import { stopAll } from "../../servers/server-process.js";
import { type Etcd, startEtcd } from "./server.js";

const servers: Etcd[] = [];
afterAll(() => stopAll(servers));

async function start(names: string): Promise<{ url: string; certificates: Certificates }> {
  const certificates = await makeCertificates(`subjectAltName=${names}`);
  const server = await startEtcd({ certificates });
  servers.push(server);
  return { url: server.url.replace("etcd:", "etcds:"), certificates };
}

test("a server that is named by its address is let in by a certificate for that address, without a warning", async () => {
  const { url, certificates } = await start("IP:127.0.0.1");
  const options = { url, tls: { ca: certificates.ca, ...certificates.client } };
  const { code, out, err } = await run(`
    import { etcd } from ${JSON.stringify(compiled("backends/etcd/index.js"))};
    const locks = createLocks(etcd(${JSON.stringify(options)}));
    const first = await locks.mutex("x").acquire({ ttl: "60s" });
    const second = locks.mutex("x").acquire({ ttl: "60s" });
    await sleep(500);
    const releasedAt = performance.now();
    await first.release();
    // By a poll it would take 6 s: so the watch, which has a connection of its own, is let in, too.
    console.log((await second).held, performance.now() - releasedAt < 3_000);
    await locks.close();
  `);
  expect({ code, out, err }).toEqual({ code: 0, out: "true true\n", err: "" });
});

test("the URL names the files, or says that nothing is checked, which is among the caveats", async () => {
  const { url, certificates } = await start("DNS:elsewhere");
  const folder = await mkdtemp(join(tmpdir(), "locktender-etcd-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const { ca, client } = certificates;
  for (const [file, text] of Object.entries({ ca, ...client })) await writeFile(join(folder, file), text);
  const ours = `sslcert=${folder}/cert&sslkey=${folder}/key`;
  const unchecked = await connect(`${url}?sslmode=no-verify&${ours}`);
  onTestFinished(() => unchecked.close());
  expect(await unchecked.mutex("x").run((lease) => lease.held)).toBe(true);
  expect(unchecked.guarantees.caveats.join("\n")).toMatch(/not checked \(no-verify/);
  const signed = await connect(`${url}?sslmode=verify-ca&${ours}&sslrootcert=${folder}/ca`);
  onTestFinished(() => signed.close());
  expect(await signed.mutex("x").run((lease) => lease.held)).toBe(true);
  await expect(connect(`${url}?${ours}&sslrootcert=${folder}/ca`)).rejects.toMatchObject({
    code: "backend",
    retryable: false,
    message: expect.stringMatching(/name the host/),
  });
  await expect(connect(`${url}?${ours}`)).rejects.toMatchObject({
    code: "backend",
    retryable: false,
    message: expect.stringMatching(/tls: \{ ca \}.*sslrootcert=.*sslmode=no-verify/),
  });
});

test("TLS on one side only is told as such", async () => {
  const { url } = await start("IP:127.0.0.1");
  const plain = await startEtcd();
  servers.push(plain);
  for (const wrong of [url.replace("etcds:", "etcd:"), plain.url.replace("etcd:", "etcds:")]) {
    await expect(connect(wrong)).rejects.toMatchObject({
      code: "backend",
      message: expect.stringMatching(/(etcds:\/\/ just where they|does it) speak TLS( at this port)?\?$/),
    });
  }
});

test("a certificate for another address, or for any name, does not let it in", async () => {
  const { url, certificates } = await start("IP:127.0.0.2,DNS:localhost,DNS:address.invalid,DNS:127.0.0.1");
  const locks = createLocks(etcd({ url, tls: { ca: certificates.ca, ...certificates.client } }));
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const error = await locks
    .mutex("x")
    .acquire({ wait: 0 })
    .catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "backend" });
  expect(inspect(error)).toMatch(/127\.0\.0\.1 is not in the cert's list/);
});
