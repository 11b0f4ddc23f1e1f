import { execFile } from "node:child_process";
import { createLocks } from "locktender";
import { migration, mysql } from "locktender/mysql";
import { createPool as createCallbackPool } from "mysql2";
import { describe, expect, onTestFinished, test } from "vitest";
import { askMariadb } from "../servers/mariadb.js";
import { backend, newPrefix, open, poolOf, queued, request, SERVER } from "./tools.js";

const { url, port } = SERVER;

/** As an administrator would: by the command line client. */
function runByHand(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const args = ["-h", "127.0.0.1", "-P", String(port), "-u", "tester", "locks"];
    const child = execFile("mariadb", args, (error) => (error === null ? resolve() : reject(error)));
    child.stdin?.end(text);
  });
}

describe("the schema", () => {
  test("many connections that come at once make it once, and none of them fails", async () => {
    const prefix = newPrefix();
    const backends = Array.from({ length: 24 }, () => backend({ prefix, connections: 1, timeout: "20s" }));
    const answers = await Promise.all(backends.map((one, index) => one.claim(request(`first-${index}`))));
    expect(answers.map(({ state }) => state)).toEqual(answers.map(() => "granted"));
  });

  test("the migration can be read, run by hand, and run again; then verify is content", async () => {
    const prefix = newPrefix();
    const text = migration(prefix);
    expect(text).toContain(`CREATE TABLE IF NOT EXISTS \`${prefix}_claims\``);
    await runByHand(text);
    await runByHand(text);
    expect((await backend({ prefix, schema: "verify" }).claim(request("a"))).state).toBe("granted");
  });

  test("verify makes nothing, and says what to do", async () => {
    const prefix = newPrefix();
    const asked = backend({ prefix, schema: "verify" }).claim(request("a"));
    await expect(asked).rejects.toMatchObject({ code: "unsupported", message: /migration\("t_/ });
    expect(await askMariadb(url, `SHOW TABLES LIKE '${prefix}%'`)).toEqual([]);
  });

  test("another version is refused, and nothing of it is touched", async () => {
    const prefix = newPrefix();
    await backend({ prefix }).claim(request("a"));
    await askMariadb(
      url,
      `DROP PROCEDURE ${prefix}_version; CREATE PROCEDURE ${prefix}_version() SELECT 99 AS version`,
    );
    for (const schema of ["create", "verify"] as const) {
      const asked = backend({ prefix, schema }).claim(request("a"));
      await expect(asked).rejects.toMatchObject({ code: "unsupported", message: /version 99.*version 1/ });
    }
  });
});

describe("rights", () => {
  test("whoever may only execute the procedures can do everything, and touch no table", async () => {
    const prefix = newPrefix();
    await backend({ prefix }).claim(request("warm"));
    await askMariadb(url, `CREATE USER '${prefix}'@'127.0.0.1'`);
    onTestFinished(async () => {
      await askMariadb(url, `DROP USER '${prefix}'@'127.0.0.1'`);
    });
    // The grants that docs/engines/mysql.md lists.
    await askMariadb(url, `GRANT EXECUTE ON locks.* TO '${prefix}'@'127.0.0.1'`);
    const own = url.replace("tester@", `${prefix}@`);
    const locks = open({ url: own, prefix, schema: "verify" }, { ttl: "30s" });
    const lease = await locks.mutex("a").acquire();
    const waiting = open({ url: own, prefix }).mutex("a").acquire();
    await queued(locks, "a", 1);
    await lease.release();
    await (await waiting).release();
    await locks.mutex("b").acquire();
    expect(await locks.forceRelease("b", { reason: "test" })).toHaveLength(1);
    await expect(askMariadb(own, `DELETE FROM ${prefix}_claims`)).rejects.toThrow(/denied/);
  });

  test("without them, the error says which page lists them", async () => {
    const prefix = newPrefix();
    await backend({ prefix }).claim(request("warm"));
    await askMariadb(
      url,
      `CREATE USER '${prefix}'@'127.0.0.1'; GRANT SELECT ON locks.* TO '${prefix}'@'127.0.0.1'`,
    );
    onTestFinished(async () => {
      await askMariadb(url, `DROP USER '${prefix}'@'127.0.0.1'`);
    });
    const asked = backend({ url: url.replace("tester@", `${prefix}@`), prefix }).claim(request("a"));
    await expect(asked).rejects.toMatchObject({
      code: "backend",
      retryable: false,
      message: /docs\/engines\/mysql\.md/,
    });
  });
});

describe("names and times", () => {
  test("names are bytes: neither case nor accents nor spaces at the end make two of them one", async () => {
    const one = backend();
    for (const name of ["order", "Order", "order ", "ordér", "orde\u0301r"]) {
      expect((await one.claim(request(name))).state, JSON.stringify(name)).toBe("granted");
    }
  });

  test("ids are bytes, too", async () => {
    const one = backend();
    await one.claim(request("a", { id: "AbC" }));
    expect(await one.release({ name: "a", id: "aBc" })).toBe(false);
    expect(await one.release({ name: "a", id: "AbC" })).toBe(true);
  });

  test("the time zone and the modes of a connection change nothing", async () => {
    const prefix = newPrefix();
    const odd = poolOf(1);
    odd.on("connection", (connection) => {
      // As the library hands it out, whatever its types say: a connection of the other kind.
      const raw = connection as unknown as { query(sql: string): void };
      raw.query("SET time_zone = '-11:00', sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES', autocommit = 0");
    });
    const [usual, other] = [backend({ prefix }), backend({ prefix, pool: odd })];
    const [first, second] = [request("it's \\"), request("it's \\")];
    const before = await usual.claim(first);
    expect((await other.claim(second)).state).toBe("waiting");
    for await (const { claims } of other.list({ name: first.name })) expect(claims).toHaveLength(2);
    expect(await usual.release(first)).toBe(true);
    for await (const { claims } of other.list({ name: first.name })) expect(claims).toHaveLength(1);
    const after = await other.claim(second);
    expect(after).toMatchObject({ state: "granted" });
    if (!("ticket" in before && "ticket" in after)) throw new Error("no tickets");
    expect(after.ticket > before.ticket && after.ticket - before.ticket < 60_000_000n).toBe(true);
  });

  test("names, notes and reasons may hold whatever a string can hold", async () => {
    const locks = open();
    const name = `o'brien "quoted" \\ %_\`; -- ${"é😀"}`;
    const note = 'nul \u0000, half \ud800, "quoted", \\';
    const lease = await locks.mutex([name]).acquire({ note });
    const [seen] = (await locks.inspect(lease.name)).holders;
    expect(seen?.note).toBe(note);
    const reason = 'it\'s \u0000 "so" \\';
    await locks.forceRelease(lease.name, { reason, by: "'" });
    await expect.poll(() => lease.signal.aborted, { timeout: 5_000 }).toBe(true);
    expect(lease.signal.reason).toMatchObject({ loss: "forced", reason, by: "'" });
  });
});

describe("pools of the caller's", () => {
  test.each(["mysql2/promise", "mysql2"])("one of %s is used, and not closed", async (kind) => {
    const uri = url;
    const pool = kind === "mysql2" ? createCallbackPool({ uri }) : poolOf();
    const locks = createLocks(mysql({ pool: pool as never, prefix: newPrefix() }));
    expect(await locks.mutex("a").run((lease) => lease.held)).toBe(true);
    await locks.close();
    const promised = kind === "mysql2" ? (pool as ReturnType<typeof createCallbackPool>).promise() : pool;
    await (promised as ReturnType<typeof poolOf>).query("SELECT 1");
    if (kind === "mysql2") await (pool as ReturnType<typeof createCallbackPool>).promise().end();
  });

  test("one that is used up is an error in time, and no lock is left behind", async () => {
    const pool = poolOf(1);
    const locks = open({ pool, timeout: "300ms" });
    await locks.mutex("a").run(() => undefined);
    const taken = await pool.getConnection();
    await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend", retryable: true });
    taken.release();
    await expect.poll(async () => (await locks.inspect("a")).holders.length).toBe(0);
    expect(await locks.mutex("a").run(() => 7)).toBe(7);
  });

  test("one that speaks another character set is refused, because names could meet", async () => {
    const prefix = newPrefix();
    await backend({ prefix }).claim(request("warm"));
    const pool = poolOf(1, { charset: "latin1" });
    await expect(backend({ prefix, pool }).claim(request("a"))).rejects.toMatchObject({
      code: "unsupported",
      message: /utf8mb4/,
    });
  });
});

describe("what cannot be meant", () => {
  test.each(["lock`; DROP TABLE x; --", "", "9lives", "a".repeat(41), "zwei wörter"])(
    "the prefix %j is refused before anything is sent",
    (prefix) => {
      expect(() => mysql({ url, prefix })).toThrow(expect.objectContaining({ code: "invalid-option" }));
    },
  );

  test.each([
    [{}, /either a url or a pool/],
    [{ pool: {} as never }, /must be a pool/],
    [{ url: "mysql://127.0.0.1" }, /must name a database/],
    [{ url: "mysql://h1,h2/db" }, /one host/],
    [{ url: "mysql://h/db?ssl=true" }, /no parameter but sslmode/],
  ])("%j is an invalid option", (options, message) => {
    const problem = expect.objectContaining({
      code: "invalid-option",
      message: expect.stringMatching(message),
    });
    expect(() => mysql(options)).toThrow(problem);
  });

  test("a wrong password is an error for good, and is not repeated in it", async () => {
    const secret = "s3cr3t-word";
    const asked = backend({ url: url.replace("tester@", `nobody:${secret}@`) }).claim(request("a"));
    const error = (await asked.catch((thrown: unknown) => thrown)) as Error & { cause: Error };
    expect(error).toMatchObject({ code: "backend", retryable: false, message: /password/ });
    expect(`${error.message} ${error.stack} ${JSON.stringify(error.cause)}`).not.toContain(secret);
  });
});
