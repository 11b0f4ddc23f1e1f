import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { mysql } from "locktender/mysql";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { makeCertificates } from "../servers/certificates.js";
import { askMariadb, type Mariadb, startMariadb } from "../servers/mariadb.js";
import { backend, newPrefix, open, queued, request, SERVER, sleep } from "./tools.js";

const run = promisify(execFile);

let server: Mariadb;
beforeAll(async () => {
  server = await startMariadb();
});
afterAll(() => server?.stop());

describe("the server goes away", () => {
  test("killed and started again, it costs nobody a lease, and whoever waits gets in with a greater token", async () => {
    const prefix = newPrefix();
    // A server that does not flush its log loses the last second with a kill, but not with this.
    await askMariadb(server.url, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    const holder = open({ url: server.url, prefix }, { ttl: "20s" });
    const lease = await holder.mutex("a").acquire();
    const waiting = open({ url: server.url, prefix }, { ttl: "20s" }).mutex("a").acquire({ wait: "30s" });
    await queued(holder, "a", 1);
    await server.process.restart();
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    expect((await holder.inspect("a")).holders).toHaveLength(1);
  });

  test("killed over and over while many work, it never lets two in, and tokens only grow", async () => {
    const prefix = newPrefix();
    await askMariadb(server.url, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    const all = Array.from({ length: 3 }, () =>
      open({ url: server.url, prefix }, { ttl: "4s", wait: "40s" }),
    );
    const tokens: bigint[] = [];
    let inside = 0;
    let stop = false;
    const work = all.flatMap((locks) =>
      Array.from({ length: 4 }, async () => {
        while (!stop) {
          await locks.mutex("hot").run(async (lease) => {
            expect(++inside).toBe(1);
            tokens.push(lease.token);
            await sleep(2);
            inside--;
          });
        }
      }),
    );
    const ended = Promise.all(work);
    for (let round = 0; round < 2; round++) {
      await sleep(400);
      await server.process.restart();
      await askMariadb(server.url, "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    }
    await sleep(400);
    stop = true;
    await ended;
    expect(tokens.length).toBeGreaterThan(20);
    expect(tokens.every((token, index) => index === 0 || token > (tokens[index - 1] ?? 0n))).toBe(true);
  });

  test("frozen, it is an error in time, and a lease ends before anybody else is let in", async () => {
    const locks = open({ url: server.url, timeout: "300ms" }, { ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    const lost = new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    server.process.pause();
    try {
      const startedAt = performance.now();
      await expect(locks.mutex("b").tryAcquire()).rejects.toMatchObject({ code: "backend", retryable: true });
      expect(performance.now() - startedAt).toBeLessThan(2_000);
      await lost;
      expect(lease.signal.reason.loss).toBe("expired");
    } finally {
      server.process.resume();
    }
    expect((await locks.mutex("a").acquire()).token).toBeGreaterThan(lease.token);
  });

  test("read-only, as a replica is, it is refused and says so", async () => {
    const prefix = newPrefix();
    await backend({ url: server.url, prefix }).claim(request("a"));
    await askMariadb(server.url, "SET GLOBAL read_only = 1");
    try {
      const asked = backend({ url: server.url, prefix }).claim(request("b"));
      await expect(asked).rejects.toMatchObject({ code: "backend", message: /read-only/ });
    } finally {
      await askMariadb(server.url, "SET GLOBAL read_only = 0");
    }
  });
});

test("a full disk is an error, never a grant; and what is held can still be given back", async (context) => {
  const folder = await mkdtemp(join(tmpdir(), "locktender-disk-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const mounted = await run("mount", ["-t", "tmpfs", "-o", "size=3m,mode=0777", "tmpfs", folder]).then(
    () => true,
    () => false,
  );
  context.skip(!mounted, "mounting a small disk is not allowed here");
  const full = await startMariadb();
  onTestFinished(async () => {
    await full.stop();
    await run("umount", [folder]);
  });
  const prefix = newPrefix();
  const one = backend({ url: full.url, prefix, timeout: "20s" });
  const held = request("held");
  await one.claim(held);
  await one.release(held);
  // The table of claims moves to the small disk.
  const [row] = await askMariadb(full.url, `SHOW CREATE TABLE ${prefix}_claims`);
  const create = String(row?.["Create Table"]).replace(
    /ENGINE=InnoDB/,
    `ENGINE=InnoDB DATA DIRECTORY='${folder}'`,
  );
  await askMariadb(full.url, `DROP TABLE ${prefix}_claims; ${create}`);
  await one.claim(held);
  await writeFile(join(folder, "junk"), Buffer.alloc(4 << 20)).catch(() => undefined);
  let failure: unknown;
  const granted: string[] = [];
  for (let index = 0; failure === undefined && index < 5_000; index++) {
    const name = `new-${index}-${"x".repeat(200)}`;
    await one.claim(request(name)).then(
      () => granted.push(name),
      (error: unknown) => {
        failure = error;
      },
    );
  }
  expect(failure).toMatchObject({ code: "backend", retryable: true, message: /full/ });
  const listed: string[] = [];
  for await (const { name } of one.list({ prefix: "new-" })) listed.push(name);
  expect(listed.sort()).toEqual(granted.sort());
  expect(await one.release(held)).toBe(true);
});

describe("many at once", () => {
  test("scenario S15: 64 clients at names that are not there yet get no error, and each name one holder", async () => {
    const prefix = newPrefix();
    const clients = Array.from({ length: 64 }, () => backend({ prefix, connections: 1, timeout: "20s" }));
    await clients[0]?.claim(request("warm"));
    for (let round = 0; round < 8; round++) {
      const answers = await Promise.all(
        clients.map((one, index) => one.claim(request(`new-${round}-${index % 4}`))),
      );
      expect(answers.filter(({ state }) => state === "granted")).toHaveLength(4);
      expect(answers.filter(({ state }) => state === "waiting")).toHaveLength(60);
    }
  });

  test("scenario S15: claims, releases, renewals and sweeps in each other's way get no error", async () => {
    const prefix = newPrefix();
    const clients = Array.from({ length: 16 }, () =>
      backend({ prefix, connections: 2, timeout: "20s", retention: "1s" }),
    );
    await clients[0]?.claim(request("warm"));
    const until = performance.now() + 3_000;
    let cycles = 0;
    await Promise.all(
      clients.map(async (one, index) => {
        for (let round = 0; performance.now() < until; round++) {
          const mine = [0, 1, 2].map((n) => request(`n-${(index + n * 7 + round) % 12}`, { ttlMs: 40 }));
          const answers = await Promise.all(mine.map((each) => one.claim(each)));
          await one.renew(
            answers.flatMap((answer, at) =>
              "ticket" in answer
                ? [{ ...(mine[at] as (typeof mine)[0]), ticket: answer.ticket, ttlMs: 40 }]
                : [],
            ),
          );
          await Promise.all(mine.map((each) => one.release(each)));
          cycles++;
        }
      }),
    );
    expect(cycles).toBeGreaterThan(50);
  });

  test("scenario S16: names cost nothing after their retention, by ordinary work alone", async () => {
    const { url } = SERVER;
    const prefix = newPrefix();
    const one = backend({ prefix, retention: "1h", timeout: "30s" });
    await one.claim(request("held", { ttlMs: 300_000 }));
    await askMariadb(
      url,
      `INSERT INTO ${prefix}_resources SELECT CONCAT('idle-', seq), (UNIX_TIMESTAMP() - 7200) * 1000000 FROM seq_1_to_200000`,
    );
    await one.claim(request("crashed", { ttlMs: 20 }));
    const isTidy = async () => {
      const [left] = await askMariadb(url, `SELECT count(*) AS n FROM ${prefix}_resources`);
      const claims = await askMariadb(
        url,
        `SELECT CONVERT(name USING utf8mb4) AS name FROM ${prefix}_claims`,
      );
      return Number(left?.n) <= 3 && claims.map(({ name }) => name).join() === "held";
    };
    for (let claims = 0; claims < 20_000 && (claims % 100 !== 0 || !(await isTidy())); claims++) {
      const passing = request("work");
      await one.claim(passing);
      await one.release(passing);
    }
    expect(await isTidy()).toBe(true);
  });

  test("waiters of a process cost one statement per poll together, and few when nothing moves", async () => {
    const url = server.url;
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
