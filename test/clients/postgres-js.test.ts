import { createLocks, type Locks } from "locktender";
import { type PostgresJsSql, type PostgresOptions, postgres } from "locktender/postgres";
import { startFaultProxy } from "locktender/testing";
import type { PostgresType, Sql } from "postgres";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { postgresHarness } from "../engines/postgres/harness.js";
import { askPostgres, setReadOnly, startPostgres } from "../engines/postgres/server.js";
import { makeCertificates } from "../servers/certificates.js";
import { clientFolder } from "../support/client-library.js";
import { besideLibraries } from "../support/other-libraries.js";
import { type CallerOptions, makeSql, opened, SOON, server, sqlAt } from "./postgres-js-tools.js";
import { clientPromises, prefixOf } from "./promises.js";

const harness = postgresHarness(server, "postgres.js");

const CAREFUL_CALLERS: Readonly<Record<string, CallerOptions>> = {
  "as it comes": {},
  "that renames columns and reads numbers in its own way": {
    transform: { ...makeSql.camel, value: { from: (value: unknown) => [value] } },
    types: { bigint: makeSql.BigInt as unknown as PostgresType },
  },
  "that prepares nothing, as behind a pooler": { prepare: false },
};

clientPromises(
  harness,
  Object.fromEntries(
    Object.entries(CAREFUL_CALLERS).map(([which, options]) => [
      `sql ${which}`,
      (at) => {
        const sql = sqlAt(at, options);
        return {
          backend: postgres({ sql, prefix: prefixOf(harness) }),
          stillWorks: () => sql`SELECT 1`,
          end: () => sql.end({ timeout: 1 }),
        };
      },
    ]),
  ),
);

/** A claim that waits, and the connection by which its process is told. */
const listening = (prefix: string) =>
  `SELECT 1 FROM pg_stat_activity JOIN "${prefix}".claims ON query = 'LISTEN "' || bell || '"' WHERE granted_us IS NULL`;

describe("a sql of postgres.js", () => {
  test("waiters are notified, and nothing is printed about tables that are there already", async () => {
    const printed = vi.spyOn(console, "log").mockImplementation(() => {});
    onTestFinished(() => printed.mockRestore());
    const { sql, locks, prefix } = opened(server);
    const held = await locks.mutex("a").acquire();
    const waiting = locks.mutex("a").acquire();
    await expect.poll(async () => (await locks.inspect("a")).waiters.length, SOON).toBe(1);
    await expect.poll(() => askPostgres(server.url, listening(prefix)), SOON).toHaveLength(1);
    await held.release();
    await (await waiting).release();
    expect(locks.guarantees).toMatchObject({ notifications: true });
    // Another release's functions, or ours made anew.
    await sql.unsafe(`DROP FUNCTION "${prefix}".breaking_r4()`);
    const second = createLocks(postgres({ sql, prefix }));
    await second.mutex("a").run(() => undefined);
    await second.close();
    expect(printed).not.toHaveBeenCalled();
  });

  test("a request that hangs is stopped on the server, and connections never become more", async () => {
    const { locks, prefix } = opened(server, { connections: 2, timeout: "300ms" });
    await locks.mutex("a").run(() => undefined);
    const blocker = sqlAt(server, { max: 1 });
    onTestFinished(() => blocker.end());
    await blocker.unsafe("BEGIN");
    await blocker.unsafe(`UPDATE "${prefix}".resources SET last_ticket = last_ticket + 1`);
    const ours = `SELECT wait_event_type FROM pg_stat_activity WHERE query LIKE '%"${prefix}"%' AND pid <> pg_backend_pid()`;
    for (let asked = 0; asked < 8; asked++) {
      await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend", retryable: true });
      // The one that blocks, ours, and the one that listens.
      expect((await askPostgres(server.url, ours)).length).toBeLessThanOrEqual(1 + 2 + 1);
    }
    await expect
      .poll(() => askPostgres(server.url, `${ours} AND wait_event_type = 'Lock'`), SOON)
      .toEqual([]);
    await blocker.unsafe("ROLLBACK");
    expect(await locks.mutex("a").run(() => "works")).toBe("works");
  });

  test("after a planned switchover it goes on at the new primary, listening included", async () => {
    const [old, next] = await Promise.all([startPostgres(), startPostgres()]);
    onTestFinished(async () => void (await Promise.all([old.stop(), next.stop()])));
    const target = { host: old.host, port: old.port };
    const proxy = await startFaultProxy({ target });
    onTestFinished(() => proxy.close());
    const { locks, prefix } = opened(proxy);
    const held = await locks.mutex("a").acquire();
    const waiting = locks.mutex("a").acquire();
    await expect.poll(async () => (await locks.inspect("a")).waiters.length, SOON).toBe(1);
    await held.release();
    await (await waiting).release();
    await setReadOnly(old.url, true);
    Object.assign(target, { host: next.host, port: next.port });
    const again = await locks.mutex("a").acquire();
    expect(again.token).toBeGreaterThan(held.token);
    const queued = locks.mutex("a").acquire();
    await expect.poll(() => askPostgres(next.url, listening(prefix)), SOON).toHaveLength(1);
    await again.release();
    await (await queued).release();
  });

  test("a server that is killed and comes back costs no process its life", async () => {
    const victim = await startPostgres();
    onTestFinished(() => victim.stop());
    const { sql, locks } = opened(victim);
    const work = Array.from({ length: 20 }, async (_, index) => {
      for (let round = 0; round < 20; round++) {
        await locks
          .mutex(`name-${index % 5}`)
          .run({ wait: "30s" }, () => undefined)
          .catch(() => undefined);
      }
    });
    await victim.process.kill();
    await victim.process.restart();
    await Promise.all(work);
    expect(await locks.mutex("a").run(() => "works")).toBe("works");
    expect(await sql`SELECT 1 AS one`).toMatchObject([{ one: 1 }]);
  });
});

describe("with TLS", () => {
  const start = async () => {
    const { ca, server: own } = await makeCertificates();
    const secured = await startPostgres({
      settings: ["ssl = on", "ssl_cert_file = '../cert'", "ssl_key_file = '../key'"],
      files: { cert: own.cert, key: own.key },
    });
    onTestFinished(() => secured.stop());
    return { secured, ca };
  };

  /** A row is locked for long: a request that waits for it is stopped, and then there is one connection again. */
  const expectStopped = async (url: string, prefix: string, locks: Locks) => {
    await locks.mutex("a").run(() => undefined);
    const blocker = makeSql(url, { max: 1, fetch_types: false });
    onTestFinished(() => blocker.end());
    await blocker.unsafe("BEGIN");
    await blocker.unsafe(`UPDATE "${prefix}".resources SET last_ticket = last_ticket + 1`);
    for (let asked = 0; asked < 4; asked++) {
      await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend" });
    }
    const encrypted = "SELECT 1 FROM pg_stat_ssl WHERE ssl";
    await expect.poll(() => askPostgres(url, encrypted).then(({ length }) => length <= 2), SOON).toBe(true);
    await blocker.unsafe("ROLLBACK");
    expect(await locks.mutex("a").run(() => "works")).toBe("works");
  };

  test("by the settings of a sql", async () => {
    const { secured, ca } = await start();
    // As its own connections, which check a certificate against no address.
    const sql = sqlAt(secured, { ssl: { ca, checkServerIdentity: () => undefined } });
    onTestFinished(() => sql.end());
    const backend = postgres({ sql, prefix: "secured", connections: 2, timeout: "500ms", listen: false });
    const locks = createLocks(backend);
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    await expectStopped(secured.url, "secured", locks);
  });

  test("by URL, where postgres.js alone is installed: the certificate is checked", async () => {
    const { secured, ca } = await start();
    const beside = await besideLibraries({ postgres: "postgres" }, clientFolder("postgres"));
    onTestFinished(() => beside.remove());
    const module = (await import(beside.url("backends/postgres/index.js"))) as { postgres: typeof postgres };
    const url = `${secured.url}?sslmode=require`;
    const open = (options: PostgresOptions) => {
      const locks = createLocks(module.postgres({ url, prefix: "by_url", timeout: "500ms", ...options }));
      onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
      return locks;
    };
    await expect(open({}).mutex("a").tryAcquire()).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: expect.stringMatching(/certificate/),
    });
    await expectStopped(secured.url, "by_url", open({ tls: { ca }, connections: 2, listen: false }));
  });
});

describe("what is no sql of postgres.js", () => {
  const sql = makeSql({ host: "127.0.0.1", port: 1 }) as Sql;
  test.each([
    [
      "a transaction",
      Object.assign(() => undefined, { unsafe: () => undefined, savepoint: () => undefined }),
    ],
    ["an object", {}],
    ["null", null],
  ])("%s is refused", (_, wrong) => {
    expect(() => postgres({ sql: wrong as never })).toThrow(
      /sql: must be what postgres\(\) of postgres.js makes/,
    );
  });

  test("nor is it taken as a pool, or beside a URL", () => {
    const given: PostgresJsSql = sql;
    expect(() => postgres({ pool: given as never })).toThrow("postgres({ sql })");
    expect(() => postgres({ sql, url: "postgres://127.0.0.1" })).toThrow("give a url, a pool or sql");
    expect(() => postgres({ sql, tls: {} })).toThrow("sql has it already");
  });
});
