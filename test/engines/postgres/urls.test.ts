import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, createLocks, type Locks } from "locktender";
import { postgres } from "locktender/postgres";
import { startFaultProxy } from "locktender/testing";
import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Certificates, makeCertificates } from "../../servers/certificates.js";
import { shared } from "../../servers/shared.js";
import { clientFolder } from "../../support/client-library.js";
import { besideLibraries } from "../../support/other-libraries.js";
import { askPostgres, type Postgres, startPostgres } from "./server.js";
import { newPrefix } from "./tools.js";

/** It lets `app` in by password and TLS alone, `plain` by telling the password, and all others without. */
const HBA = `hostssl all app 127.0.0.1/32 scram-sha-256
hostssl all plain 127.0.0.1/32 password
host all app 127.0.0.1/32 reject
host all all 127.0.0.1/32 trust
local all all trust`;

let certificates: Certificates;
let server: Postgres;
let folder: string;
beforeAll(async () => {
  certificates = await makeCertificates();
  folder = await mkdtemp(join(tmpdir(), "pg-"));
  await chmod(folder, 0o777);
  const { cert, key } = certificates.server;
  server = await startPostgres({
    settings: [
      ...["ssl = on", "ssl_cert_file = '../cert'", "ssl_key_file = '../key'", "hba_file = 'hba'"],
      ...[`unix_socket_directories = '${folder}'`, "password_encryption = 'scram-sha-256'"],
    ],
    files: { cert, key, hba: HBA },
  });
  await askPostgres(
    server.url,
    `CREATE ROLE app LOGIN PASSWORD 's3cr3t-word'; CREATE ROLE plain LOGIN PASSWORD 's3cr3t-word';
     GRANT CREATE ON DATABASE postgres TO app, plain`,
  );
  await writeFile(join(folder, "ca.pem"), certificates.ca);
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

type Connect = (url: string, options?: Parameters<typeof connect>[1]) => Promise<Locks>;

/** Locks that are closed with the test. Each user has tables of its own. */
async function opened(query: string, options: object = {}, by: Connect = connect): Promise<Locks> {
  const base = `postgresql://app:s3cr3t-word@127.0.0.1:${server.port}/postgres`;
  const url = query.startsWith("postgres") ? query : `${base}?${query}`;
  const prefix = `urls_${/app|plain/.exec(url)?.[0]}`;
  const locks = await by(url, { prefix, ...options });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

async function works(locks: Locks): Promise<void> {
  expect(await locks.mutex("a").run((lease) => lease.held)).toBe(true);
}

/** A build beside which there is only postgres.js. */
const beside = await besideLibraries({ postgres: "postgres" }, clientFolder("postgres"));
afterAll(() => beside.remove());

async function byPostgresJs(): Promise<Connect> {
  return ((await import(beside.url("index.js"))) as { connect: Connect }).connect;
}

/** The parameters in which hosters and tools hand out their URLs. */
const SHAPES: Readonly<Record<string, string>> = {
  "a serverless hoster": "sslmode=require&channel_binding=require",
  "a managed database": "sslmode=require",
  "an integration of a platform": "sslmode=require&supa=base-pooler.x",
  "a strict one": "sslmode=verify-full&application_name=shop&connect_timeout=10",
  "a pooler": "sslmode=require&pgbouncer=true&connect_timeout=15&connection_limit=1&pool_timeout=20",
  "an object mapper": "schema=public&sslaccept=strict&statement_cache_size=0&socket_timeout=5",
  "a driver of Node.js": "ssl=true&options=-c%20search_path%3Dapp&target_session_attrs=read-write",
  "a framework": "sslmode=require&serverVersion=15&charset=utf8",
  "another framework": "sslmode=require&pool=5&encoding=unicode&prepared_statements=false&keepalives=1",
};

describe.each([
  ["pg", async (): Promise<Connect> => connect],
  ["postgres.js", byPostgresJs],
] as const)("by %s", (library, by) => {
  const shapes = Object.entries(SHAPES).filter(([, query]) => library === "pg" || !/channel/.test(query));

  test.each(shapes)("the URL of %s is taken as it is", async (_, query) => {
    await works(await opened(`${query}&sslrootcert=${folder}/ca.pem`, {}, await by()));
    await works(await opened(query, { engine: { tls: { ca: certificates.ca } } }, await by()));
  });

  test("an unknown authority is refused, and the error names all three ways out", async () => {
    await expect(opened("sslmode=require", {}, await by())).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(
        /connect\(url, \{ engine: \{ tls: \{ ca \} \} \}\).*sslrootcert=.*sslmode=no-verify/,
      ),
    });
  });

  test("a server that wants TLS says so, and the error says what to write", async () => {
    const plain = opened("sslmode=disable", {}, await by());
    await expect(plain).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(/wants TLS: .*\?sslmode=require/),
    });
  });

  test("no-verify lets any certificate pass, and is among the caveats", async () => {
    const unchecked = await opened("sslmode=no-verify", {}, await by());
    await works(unchecked);
    expect(unchecked.guarantees.caveats.join("\n")).toMatch(/not checked \(no-verify/);
    await works(await opened("sslmode=require&sslrootcert=system", {}, await by()).catch(() => unchecked));
    const checked = await opened(`sslmode=require&sslrootcert=${folder}/ca.pem`, {}, await by());
    expect(checked.guarantees.caveats.join("\n")).not.toMatch(/certificate/);
  });

  test("verify-ca asks who signed, and not whom the certificate names", async () => {
    const base = `postgresql://app:s3cr3t-word@localhost:${server.port}/postgres`;
    const authority = `sslrootcert=${folder}/ca.pem`;
    const locks = await opened(`${base}?sslmode=verify-ca&${authority}`, {}, await by());
    await works(locks);
    expect(locks.guarantees.caveats.join("\n")).toMatch(/verify-ca/);
    const full = opened(`${base}?sslmode=verify-full&${authority}`, {}, await by());
    await expect(full).rejects.toMatchObject({ message: expect.stringMatching(/name the host/) });
    await expect(opened(`${base}?sslmode=verify-ca`, {}, await by())).rejects.toMatchObject({
      message: expect.stringMatching(/sslrootcert=/),
    });
  });

  test("the server sees who asks, and the settings that were handed to it", async () => {
    const named = await opened(
      `${server.url}?application_name=shop%20one&options=-c%20geqo%3Doff`,
      {},
      await by(),
    );
    const [row] = await askPostgres(
      server.url,
      "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = 'shop one'",
    );
    expect(Number(row?.n)).toBeGreaterThan(0);
    await works(named);
    const options = "options=-c%20default_transaction_isolation%3Dserializable";
    await expect(opened(`${server.url}?${options}`, {}, await by())).rejects.toMatchObject({
      code: "unsupported",
    });
  });

  test("a Unix socket is a host, in the front or as a parameter", async () => {
    for (const url of [
      `postgres://postgres@${encodeURIComponent(folder)}:${server.port}/postgres`,
      `postgres:///postgres?host=${folder}&port=${server.port}&user=postgres`,
      `postgres://postgres@localhost/postgres?host=${encodeURIComponent(folder)}&port=${server.port}`,
      `postgres://postgres@localhost:${server.port}/postgres?host=${folder}`,
      `postgres://postgres@:${server.port}/postgres?host=${folder}`,
      `postgres://postgres@localhost:1/postgres?host=${folder}&port=${server.port}`,
      `postgres://postgres@localhost:1/postgres?host=127.0.0.1&port=${server.port}`,
    ]) {
      await works(await opened(url, {}, await by()));
    }
    const away = opened(`postgres:///postgres?host=${folder}/none`, {}, await by());
    await expect(away).rejects.toMatchObject({ message: expect.stringContaining(`${folder}/none`) });
  });
});

test.each(["pg", "postgres"])("by %s: a server that is not PostgreSQL", async (library) => {
  const { url: other } = await shared("redis");
  const url = `postgres://postgres@127.0.0.1:${new URL(other).port}/postgres`;
  const beside = await besideLibraries({ [library]: library });
  onTestFinished(() => beside.remove());
  const { connect: open } = (await import(beside.url("index.js"))) as { connect: typeof connect };
  await expect(open(url, { engine: { connectTimeout: "500ms" } })).rejects.toMatchObject({
    code: "backend",
    message: expect.stringMatching(/is it PostgreSQL that listens at this port\?$/),
  });
});

test("of a pool that is the caller's, the error says to whom the authority is named", async () => {
  const config = { host: "127.0.0.1", port: server.port, user: "app", password: "s3cr3t-word" };
  const pool = new Pool({ ...config, database: "postgres", ssl: true });
  onTestFinished(() => pool.end());
  const locks = createLocks(postgres({ pool, prefix: "urls_app" }));
  onTestFinished(() => locks.close());
  await expect(locks.mutex("a").acquire()).rejects.toMatchObject({
    code: "backend",
    retryable: false,
    message: expect.stringMatching(/to the client or pool that is yours\.$/),
  });
});

describe("channel_binding=require", () => {
  test.each([
    ["nothing", "postgres", /lets us in without it/],
    ["the password itself", "plain:s3cr3t-word", /asks for the password itself/],
  ])("is kept to: a server that asks for %s is left", async (_, user, why) => {
    const to = (binding: string) =>
      `postgres://${user}@127.0.0.1:${server.port}/postgres?sslmode=require&channel_binding=${binding}&sslrootcert=${folder}/ca.pem`;
    await expect(opened(to("require"))).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(why),
    });
    await works(await opened(to("prefer")));
    await works(await opened(to("disable")));
  });

  test("needs TLS, and a library that can", async () => {
    const url = `${server.url}?channel_binding=require`;
    await expect(connect(url)).rejects.toMatchObject({ code: "invalid-option" });
    const by = await byPostgresJs();
    await expect(opened("sslmode=no-verify&channel_binding=require", {}, by)).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringMatching(/npm install pg/),
    });
  });
});

describe("parameters that are options", () => {
  test("do what the option does", async () => {
    const prefix = newPrefix();
    const url = `${server.url}?prefix=${prefix}&listen=false&connections=2&timeout=1s&retention=600000`;
    const locks = await connect(url);
    onTestFinished(() => locks.close());
    await works(locks);
    expect(locks.guarantees).toMatchObject({ notifications: false });
    expect(await askPostgres(server.url, `SELECT 1 FROM "${prefix}".resources`)).toHaveLength(1);
    const pooled = await opened(`${server.url}?pgbouncer=true`);
    expect(pooled.guarantees.caveats.join("\n")).toMatch(/No connection listens/);
    const direct = await opened(`${server.url}?pgbouncer=false`);
    expect(direct.guarantees.caveats.join("\n")).not.toMatch(/listens/);
  });

  test("connect_timeout is how long the first connection may take", async () => {
    const proxy = await startFaultProxy({ target: server });
    onTestFinished(() => proxy.close());
    const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
    proxy.delay({ toClientMs: 300 });
    const short = connect(`${url}?timeout=200ms&prefix=${newPrefix()}`);
    await expect(short).rejects.toMatchObject({ code: "backend" });
    const long = connect(`${url}?timeout=200ms&connect_timeout=10&prefix=${newPrefix()}`);
    await sleep(500);
    proxy.delay({});
    await works(await long);
    await (await long).close();
  });
});

describe("a parameter that is not meant", () => {
  const at = (query: string) => () => postgres({ url: `postgres://u:s3cr3t@h/db?${query}`, prefix: "x" });
  const refused = (message: RegExp) =>
    expect.objectContaining({ code: "invalid-option", message: expect.stringMatching(message) });

  test.each([
    ["sslmod=require", /"sslmod".*Known are: .*sslmode.*channel_binding/],
    ["sslmode=prefer", /sslmode in the URL must be .*require.*no-verify/],
    ["sslmode=allow", /sslmode/],
    ["ssl=maybe", /ssl in the URL/],
    ["sslnegotiation=direct", /"sslnegotiation"/],
    ["sslcrl=x", /"sslcrl"/],
    ["sslidentity=x", /"sslidentity"/],
    ["sslmode=disable&sslmode=require", /sslmode is given twice/],
    ["sslmode=require&ssl=false", /sslmode and ssl contradict/],
    ["sslmode=require&sslaccept=accept_invalid_certs", /contradict/],
    ["sslmode=disable&sslrootcert=x", /sslmode=disable/],
    ["sslrootcert=/no/such/file", /sslrootcert: .*ENOENT/],
    ["sslcert=/etc/hostname", /cert and key/],
    ["sslmode=require&host=/run", /Unix socket has no TLS/],
    ["gssencmode=require", /gssencmode/],
    ["channel_binding=perhaps", /channel_binding/],
    ["target_session_attrs=any", /read-write or primary/],
    ["client_encoding=latin1", /client_encoding/],
    ["schema=verify", /engine: \{ schema: "verify" \}/],
    ["connections=four", /connections/],
    ["timeout=soon", /timeout/],
    ["connect_timeout=soon", /connect_timeout in the URL must be a number of seconds/],
    ["prefix=y", /prefix: is given as an option and in the URL/],
    ["listen=perhaps", /listen/],
    ["%0A=x", /a name that is not plain text/],
    ["constructor=x", /"constructor"/],
  ])("%s is refused, and named", (query, message) => {
    expect(at(query)).toThrow(refused(message));
  });

  test("a password with a question mark in it is not taken for one", () => {
    expect(() => postgres({ url: "postgres://u:s3c?r3t@h/db" })).toThrow(refused(/\? is written %3F/));
    expect(() => postgres({ url: "postgres://u:s3c#r3t@h/db" })).toThrow(refused(/# is written %23/));
    expect(() => postgres({ url: "postgres://u:s3c?r3t@h/db" })).not.toThrow(/s3c|r3t/);
  });

  test("a URL without a host is refused", () => {
    for (const url of ["postgres://", "postgres:///db", "postgres://u:s3cr3t@/db"]) {
      expect(() => postgres({ url }), url).toThrow(refused(/names no host.*127\.0\.0\.1/));
    }
  });
});
