import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { giveTo } from "../servers/as-user.js";
import { askPostgres, type Postgres, startPostgres, startStandby } from "../servers/postgres.js";
import { backend, eventually, newPrefix, open, poolOf, queued, request, SERVER, sleep } from "./tools.js";

const run = promisify(execFile);

let server: Postgres;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server?.stop());

/** The server is many processes. */
function signalAll(signal: NodeJS.Signals): void {
  const { pid } = server.process;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number);
  for (const one of [pid, ...children]) process.kill(one, signal);
}

/** All of them at once: those that are left would keep a new one from starting. */
async function restart(): Promise<void> {
  signalAll("SIGKILL");
  await server.process.kill();
  await sleep(100);
  await server.process.restart();
}

describe("the server goes away", () => {
  test("killed and started again, it costs nobody a lease, and whoever waits gets in with a greater token", async () => {
    const prefix = newPrefix();
    const holder = open({ url: server.url, prefix }, { ttl: "20s" });
    const lease = await holder.mutex("a").acquire();
    const waiting = open({ url: server.url, prefix }, { ttl: "20s" }).mutex("a").acquire({ wait: "30s" });
    await queued(holder, "a", 1);
    await restart();
    expect(lease.held).toBe(true);
    expect(await lease.release()).toBe(true);
    const next = await waiting;
    expect(next.token).toBeGreaterThan(lease.token);
    expect((await holder.inspect("a")).holders).toHaveLength(1);
  });

  test("killed over and over while many work, it never lets two in, and tokens only grow", async () => {
    const prefix = newPrefix();
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
    for (let round = 0; round < 3; round++) {
      await sleep(300);
      await restart();
    }
    await sleep(300);
    stop = true;
    await ended;
    expect(tokens.length).toBeGreaterThan(30);
    expect(tokens.every((token, index) => index === 0 || token > (tokens[index - 1] ?? 0n))).toBe(true);
  });

  test("frozen, it is an error in time, and a lease ends before anybody else is let in", async () => {
    const prefix = newPrefix();
    const locks = open({ url: server.url, prefix, timeout: "300ms" }, { ttl: "1s" });
    const lease = await locks.mutex("a").acquire();
    const lost = new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    signalAll("SIGSTOP");
    try {
      const startedAt = performance.now();
      await expect(locks.mutex("b").tryAcquire()).rejects.toMatchObject({ code: "backend", retryable: true });
      expect(performance.now() - startedAt).toBeLessThan(2_000);
      await lost;
      expect(lease.signal.reason.loss).toBe("expired");
    } finally {
      signalAll("SIGCONT");
    }
    expect((await locks.mutex("a").acquire()).token).toBeGreaterThan(lease.token);
  });

  test("a backend that is ended in mid-transaction grants nothing, and the retry is granted once", async () => {
    const prefix = newPrefix();
    const locks = open({ url: server.url, prefix }, { ttl: "10s" });
    await locks.mutex("a").run(() => undefined);
    const blocker = await poolOf(server.url, 1).connect();
    await blocker.query(`BEGIN; SELECT 1 FROM "${prefix}".resources WHERE name = 'a' FOR UPDATE`);
    const asked = locks.mutex("a").acquire();
    const stuck = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    await eventually("it is stuck", 2_000, async () => (await askPostgres(server.url, stuck)).length === 1);
    await askPostgres(server.url, `SELECT pg_terminate_backend(pid) FROM (${stuck}) AS stuck`);
    await blocker.query("ROLLBACK");
    blocker.release();
    expect((await asked).held).toBe(true);
    expect((await locks.inspect("a")).holders).toHaveLength(1);
  });
});

describe("a server that cannot write", () => {
  test("a replica is refused, and says that it is one", async () => {
    const prefix = newPrefix();
    await backend({ url: server.url, prefix }).claim(request("a"));
    const standby = await startStandby(server);
    onTestFinished(() => standby.stop());
    const asked = backend({ url: standby.url, prefix }).claim(request("a"));
    await expect(asked).rejects.toMatchObject({ code: "backend", message: /replica/ });
  });

  test("so is one that is set to read-only", async () => {
    const prefix = newPrefix();
    await backend({ url: server.url, prefix }).claim(request("a"));
    const pool = poolOf(`${server.url}?options=-c%20default_transaction_read_only%3Don`);
    await expect(backend({ pool, prefix }).claim(request("b"))).rejects.toMatchObject({
      code: "backend",
      message: /read-only/,
    });
  });

  test("a full disk is an error, never a grant; and what is held can still be given back", async (context) => {
    const folder = await mkdtemp(join(tmpdir(), "locktender-disk-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const mounted = await run("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", folder]).then(
      () => true,
      () => false,
    );
    context.skip(!mounted, "mounting a small disk is not allowed here");
    await giveTo("postgres", folder);
    await chmod(folder, 0o700);
    const full = await startPostgres();
    // First the server, or the disk would still be in use.
    onTestFinished(async () => {
      await full.stop();
      await run("umount", [folder]);
    });
    await askPostgres(full.url, `CREATE TABLESPACE small LOCATION '${folder}'`);
    await askPostgres(full.url, "ALTER ROLE postgres SET default_tablespace = 'small'");
    const one = backend({ url: full.url, timeout: "10s" });
    const held = request("held");
    await one.claim(held);
    await writeFile(join(folder, "junk"), Buffer.alloc(4 << 20)).catch(() => undefined);
    let failure: unknown;
    const granted: string[] = [];
    for (let index = 0; failure === undefined && index < 2_000; index++) {
      const name = `new-${index}-${"x".repeat(200)}`;
      await one.claim(request(name)).then(
        () => granted.push(name),
        (error: unknown) => {
          failure = error;
        },
      );
    }
    expect(failure).toMatchObject({
      code: "backend",
      retryable: true,
      message: /disk of the server is full/,
    });
    const listed: string[] = [];
    for await (const { name } of one.list({ prefix: "new-" })) listed.push(name);
    expect(listed.sort()).toEqual(granted.sort());
    expect(await one.release(held)).toBe(true);
    await rm(join(folder, "junk"), { force: true });
    expect((await one.claim(request("held"))).state).toBe("granted");
  });
});

describe("many at once", () => {
  test("scenario S15: 64 clients at names that are not there yet get no error, and each name one holder", async () => {
    const { url } = SERVER;
    const prefix = newPrefix();
    const clients = Array.from({ length: 64 }, () =>
      backend({ url, prefix, connections: 1, timeout: "20s" }),
    );
    await clients[0]?.claim(request("warm"));
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(clients.map((one) => one.claim(request(`new-${round}`))));
      expect(answers.filter(({ state }) => state === "granted")).toHaveLength(1);
      expect(answers.filter(({ state }) => state === "waiting")).toHaveLength(63);
    }
  });

  test("scenario S16: a million names cost nothing after their retention, by ordinary work alone", async () => {
    const { url } = SERVER;
    const prefix = newPrefix();
    const one = backend({ url, prefix, retention: "1h", timeout: "30s" });
    await one.claim(request("held", { ttlMs: 300_000 }));
    await askPostgres(
      url,
      `INSERT INTO "${prefix}".resources
       SELECT 'idle-' || n, (extract(epoch FROM clock_timestamp() - interval '2 hours') * 1000000)::bigint
       FROM generate_series(1, 1000000) AS n`,
    );
    const young = await one.claim(request("young", { ttlMs: 300_000 }));
    await one.claim(request("crashed", { ttlMs: 20 }));
    const left = async () =>
      Number((await askPostgres(url, `SELECT count(*) AS n FROM "${prefix}".resources`))[0]?.n);
    const claimed = async () => {
      const rows = await askPostgres(url, `SELECT name FROM "${prefix}".claims ORDER BY name`);
      return rows.map(({ name }) => name).join();
    };
    const isTidy = async () => (await left()) <= 4 && (await claimed()) === "held,young";
    for (let claims = 0; claims < 20_000 && (claims % 100 !== 0 || !(await isTidy())); claims++) {
      const passing = request("work");
      await one.claim(passing);
      await one.release(passing);
    }
    expect([await left(), await claimed()]).toEqual([4, "held,young"]);
    expect(young.state).toBe("granted");
  });
});

test("the log of the server holds no id of a claim and no password", async () => {
  const log = await readFile(join(server.process.folder, "output.log"), "utf8");
  expect(log).not.toMatch(/claim-\d+-\d+/);
});
