import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mysql } from "locktender/mysql";
import { expect, onTestFinished, test } from "vitest";
import { makeCertificates } from "../../servers/certificates.js";
import { askMariadb, isMysql, type Mariadb, startMariadb } from "./server.js";
import { backend, request } from "./tools.js";

const PASSWORD = "s3cr3t-word";
/** MariaDB has no such plugin, and no other one that asks for the whole password. */
const PLUGIN = isMysql() ? "IDENTIFIED WITH caching_sha2_password BY" : "IDENTIFIED BY";

/** A user with a password whom the server has not seen before: only then does it ask for the whole password. */
async function addUser(url: string, more = ""): Promise<string> {
  await askMariadb(
    url,
    `CREATE USER 'shop'@'%' ${PLUGIN} '${PASSWORD}' ${more}; GRANT ALL ON locks.* TO 'shop'@'%'`,
  );
  return url.replace("tester@", `shop:${PASSWORD}@`);
}

/** A server that speaks TLS, and its authority. */
async function startSecure(): Promise<{ readonly server: Mariadb; readonly ca: string }> {
  const { ca, server: own } = await makeCertificates("subjectAltName=DNS:localhost");
  const folder = await mkdtemp(join(tmpdir(), "locktender-tls-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  await writeFile(join(folder, "cert"), own.cert, { mode: 0o644 });
  await writeFile(join(folder, "key"), own.key, { mode: 0o644 });
  const server = await startMariadb([`--ssl-cert=${folder}/cert`, `--ssl-key=${folder}/key`]);
  onTestFinished(() => server.stop());
  return { server, ca };
}

const withTls = (url: string) => `${url.replace("127.0.0.1", "localhost")}?sslmode=require`;

test("with TLS the server's certificate is checked", async () => {
  const { server, ca } = await startSecure();
  const url = withTls(server.url);
  expect(() => mysql({ url: `${server.url}?sslmode=require` })).toThrow(/not its address/);
  expect((await backend({ url, tls: { ca } }).claim(request("a"))).state).toBe("granted");
  await expect(backend({ url }).claim(request("a"))).rejects.toMatchObject({
    code: "backend",
    retryable: false,
    message: expect.stringMatching(/tls: \{ ca \}/),
  });
});

test("a user with a password comes in without TLS, and again when the server knows the password", async () => {
  const server = await startMariadb();
  onTestFinished(() => server.stop());
  const url = await addUser(server.url);
  for (const name of ["a", "b"]) expect((await backend({ url }).claim(request(name))).state).toBe("granted");
  const wrong = backend({ url: url.replace(PASSWORD, "wrong") }).claim(request("a"));
  await expect(wrong).rejects.toMatchObject({
    code: "backend",
    retryable: false,
    message: expect.stringMatching(/password/),
  });
});

test("and with TLS, where nothing else is allowed", async () => {
  const { server, ca } = await startSecure();
  const url = await addUser(server.url, "REQUIRE SSL");
  await expect(backend({ url }).claim(request("a"))).rejects.toMatchObject({ code: "backend" });
  for (const name of ["a", "b"]) {
    const one = backend({ url: withTls(url), tls: { ca } });
    expect((await one.claim(request(name))).state).toBe("granted");
  }
});
