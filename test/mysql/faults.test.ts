import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { mysql } from "locktender/mysql";
import { describe, expect, onTestFinished, test } from "vitest";
import { crowdPromises } from "../databases/crowds.js";
import { faultPromises } from "../databases/faults.js";
import { smallDisk, staysRightWhenFull } from "../databases/full-disk.js";
import { makeCertificates } from "../servers/certificates.js";
import { askMariadb, startMariadb } from "../servers/mariadb.js";
import { backend, DATABASE, newPrefix, open, queued, request, sleep } from "./tools.js";

const run = promisify(execFile);

faultPromises(DATABASE);

describe("many at once", () => crowdPromises(DATABASE));

test("a full disk is an error, never a grant; and what is held can still be given back", async (context) => {
  const folder = await smallDisk(context, 3);
  const full = await startMariadb();
  onTestFinished(() => full.stop());
  const prefix = newPrefix();
  const one = backend({ url: full.url, prefix, timeout: "20s" });
  await one.release(request("warm"));
  // The table of claims moves to the small disk.
  const [row] = await askMariadb(full.url, `SHOW CREATE TABLE ${prefix}_claims`);
  const create = String(row?.["Create Table"]).replace(
    /ENGINE=InnoDB/,
    `ENGINE=InnoDB DATA DIRECTORY='${folder}'`,
  );
  await askMariadb(full.url, `DROP TABLE ${prefix}_claims; ${create}`);
  await staysRightWhenFull(one, folder);
});

test("waiters of a process cost one statement per poll together, and few when nothing moves", async () => {
  // Of its own: the server counts for all who use it.
  const server = await startMariadb();
  onTestFinished(() => server.stop());
  const { url } = server;
  const prefix = newPrefix();
  const holder = open({ url, prefix }, { ttl: "60s" });
  const waiter = open({ url, prefix }, { ttl: "60s" });
  const names = Array.from({ length: 20 }, (_, index) => `n-${index}`);
  const leases = await Promise.all(names.map((name) => holder.mutex(name).acquire()));
  const waits = names.flatMap((name) => [0, 1, 2].map(() => waiter.mutex(name).run(() => undefined)));
  await Promise.all(names.map((name) => queued(holder, name, 3)));
  await sleep(1_000);
  const calls = async () => {
    const [row] = await askMariadb(url, "SHOW GLOBAL STATUS LIKE 'Com_call_procedure'");
    return Number(row?.Value);
  };
  const before = await calls();
  await sleep(2_000);
  // 60 claims wait: every 100 ms one statement, and a few for chance.
  expect((await calls()) - before).toBeLessThan(40);
  await Promise.all(leases.map((lease) => lease.release()));
  await Promise.all(waits);
});

test("with TLS the server's certificate is checked", async () => {
  const { ca, server: own } = await makeCertificates("subjectAltName=DNS:localhost");
  const folder = await mkdtemp(join(tmpdir(), "locktender-tls-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await run("chmod", ["755", folder]);
  await writeFile(join(folder, "cert"), own.cert, { mode: 0o644 });
  await writeFile(join(folder, "key"), own.key, { mode: 0o644 });
  const secure = await startMariadb([`--ssl-cert=${folder}/cert`, `--ssl-key=${folder}/key`]);
  onTestFinished(() => secure.stop());
  const url = `${secure.url.replace("127.0.0.1", "localhost")}?sslmode=require`;
  expect(() => mysql({ url: `${secure.url}?sslmode=require` })).toThrow(/not its address/);
  expect((await backend({ url, tls: { ca } }).claim(request("a"))).state).toBe("granted");
  await expect(backend({ url }).claim(request("a"))).rejects.toMatchObject({
    code: "backend",
    retryable: false,
    message: /option tls/,
  });
});
