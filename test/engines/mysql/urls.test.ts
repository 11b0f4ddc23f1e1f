import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type Locks } from "locktender";
import { mysql } from "locktender/mysql";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Certificates, makeCertificates } from "../../servers/certificates.js";
import { askMariadb, type Mariadb, startMariadb } from "./server.js";
import { newPrefix } from "./tools.js";

let certificates: Certificates;
let server: Mariadb;
let folder: string;
beforeAll(async () => {
  certificates = await makeCertificates("subjectAltName=DNS:localhost");
  folder = await mkdtemp(join(tmpdir(), "locktender-urls-"));
  await chmod(folder, 0o777);
  await writeFile(join(folder, "cert"), certificates.server.cert, { mode: 0o644 });
  await writeFile(join(folder, "key"), certificates.server.key, { mode: 0o644 });
  await writeFile(join(folder, "ca.pem"), certificates.ca);
  const files = [`--ssl-cert=${folder}/cert`, `--ssl-key=${folder}/key`];
  server = await startMariadb([...files, `--socket=${folder}/my.sock`]);
  await askMariadb(
    server.url,
    `CREATE USER 'app'@'%' IDENTIFIED BY 's3cr3t-word' REQUIRE SSL; GRANT ALL ON locks.* TO 'app'@'%';
     CREATE USER 'here'@'localhost' IDENTIFIED BY 's3cr3t-word'; GRANT ALL ON locks.* TO 'here'@'localhost'`,
  );
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Locks that are closed with the test. */
async function opened(query: string, options: object = {}): Promise<Locks> {
  const base = `mysql://app:s3cr3t-word@localhost:${server.port}/locks`;
  const url = query.includes("://") ? query : `${base}?${query}`;
  const locks = await connect(url, { prefix: "urls", ...options });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function works(locks: Locks): Promise<void> {
  expect(await locks.mutex("a").run((lease) => lease.held)).toBe(true);
}

/** The parameters in which hosters and tools hand out their URLs. */
const SHAPES: Readonly<Record<string, string>> = {
  "a managed database": "ssl-mode=REQUIRED",
  "a strict one": "sslMode=VERIFY_IDENTITY&connect_timeout=10",
  "a serverless hoster": `ssl=${encodeURIComponent('{"rejectUnauthorized":true}')}`,
  "the same for an object mapper": "sslaccept=strict&connection_limit=5&pool_timeout=10",
  "a driver of Node.js": "ssl=true&charset=utf8mb4_unicode_ci&connectionLimit=5&timezone=Z",
  "a framework": "ssl_mode=required&serverVersion=8.0.32&charset=utf8mb4",
  "another language": "ssl-mode=VERIFY_CA&charset=utf8mb4&parseTime=true&loc=UTC",
};

describe("a URL as it is handed out", () => {
  test.each(Object.entries(SHAPES))("by %s is taken as it is", async (_, query) => {
    await works(await opened(`${query}&ssl-ca=${folder}/ca.pem`));
    await works(await opened(query, { engine: { tls: { ca: certificates.ca } } }));
    await expect(opened(query)).rejects.toMatchObject({ code: "backend", retryable: false });
  });

  test("an unknown authority is refused, and the error names all three ways out", async () => {
    await expect(opened("ssl-mode=REQUIRED")).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(
        /connect\(url, \{ engine: \{ tls: \{ ca \} \} \}\).*sslrootcert=.*sslmode=no-verify/,
      ),
    });
    await works(await opened(`ssl-mode=REQUIRED&sslrootcert=${folder}/ca.pem`));
  });

  test.each(["sslmode=no-verify", `ssl=${encodeURIComponent('{"rejectUnauthorized":false}')}`])(
    "%s lets any certificate pass, also of an address, and is among the caveats",
    async (query) => {
      const locks = await opened(`mysql://app:s3cr3t-word@127.0.0.1:${server.port}/locks?${query}`);
      await works(locks);
      expect(locks.guarantees.caveats.join("\n")).toMatch(/not checked \(no-verify/);
    },
  );

  test("without TLS, a server that wants it says so, and the error says what to write", async () => {
    const asUser = opened(`mysql://app:s3cr3t-word@localhost:${server.port}/locks`);
    await expect(asUser).rejects.toMatchObject({ message: expect.stringMatching(/\?sslmode=require/) });
    const strict = await startMariadb();
    onTestFinished(() => strict.stop());
    await askMariadb(strict.url, "SET GLOBAL require_secure_transport = 1");
    await expect(opened(strict.url)).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(/\?sslmode=require/),
    });
  });

  test("a Unix socket is a host, in the front or as a parameter", async () => {
    const path = `${folder}/my.sock`;
    for (const url of [
      `mysql://here:s3cr3t-word@${encodeURIComponent(path)}/locks`,
      `mysql://here:s3cr3t-word@localhost/locks?socket=${path}`,
      `mysql://here:s3cr3t-word@/locks?socketPath=${encodeURIComponent(path)}`,
      `mysql://here:s3cr3t-word@localhost/locks?unix_socket=${path}`,
    ]) {
      await works(await opened(url));
    }
    const away = opened(`mysql://here@localhost/locks?socket=${folder}/none.sock`);
    await expect(away).rejects.toMatchObject({ message: expect.stringContaining(`${folder}/none.sock`) });
  });

  test("parameters that are options do what the option does", async () => {
    const prefix = newPrefix();
    const locks = await connect(`${server.url}?prefix=${prefix}&connections=2&timeout=1s&retention=10m`);
    onTestFinished(() => locks.close());
    await works(locks);
    const verifying = connect(`${server.url}?prefix=${newPrefix()}&schema=verify`);
    await expect(verifying).rejects.toMatchObject({ code: "unsupported" });
  });
});

test.each([
  ["sslmod=require", /"sslmod".*Known are: .*sslmode.*ssl-mode/],
  ["ssl-mode=PREFERRED", /ssl-mode in the URL must be/],
  ["useSSL=true", /"useSSL"/],
  ['ssl={"ca":"x"}', /ssl in the URL must be/],
  ["ssl={", /ssl in the URL must be/],
  ["ssl=Amazon%20RDS", /ssl in the URL must be/],
  ["ssl-mode=DISABLED&ssl=true", /ssl-mode and ssl contradict/],
  ["charset=latin1", /charset in the URL must be utf8mb4/],
  ["schema=public", /schema in the URL must be create or verify/],
  ["channel_binding=require", /"channel_binding"/],
  ["sslmode=require&socket=/run/my.sock", /Unix socket has no TLS/],
  ["prefix=y", /given as an option and in the URL/],
])("%s is refused, and named", (query, message) => {
  const url = `mysql://u:s3cr3t@h/db?${query}`;
  expect(() => mysql({ url, prefix: "x" })).toThrow(
    expect.objectContaining({ code: "invalid-option", message: expect.stringMatching(message) }),
  );
  expect(() => mysql({ url, prefix: "x" })).not.toThrow(/s3cr3t/);
});
