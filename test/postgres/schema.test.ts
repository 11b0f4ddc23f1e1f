import { migration, postgres } from "locktender/postgres";
import { describe, expect, onTestFinished, test } from "vitest";
import { askPostgres } from "../servers/postgres.js";
import { backend, newPrefix, open, poolOf, request, SERVER } from "./tools.js";

const { url } = SERVER;

describe("the schema", () => {
  test("many connections that come at once make it once, and none of them fails", async () => {
    const prefix = newPrefix();
    const backends = Array.from({ length: 24 }, () => backend({ prefix, connections: 1, timeout: "10s" }));
    const answers = await Promise.all(backends.map((one, index) => one.claim(request(`first-${index}`))));
    expect(answers.map(({ state }) => state)).toEqual(answers.map(() => "granted"));
  });

  test("the migration can be read, run by hand, and run again; then verify is content", async () => {
    const prefix = newPrefix();
    const text = migration(prefix);
    expect(text).toContain(`CREATE SCHEMA IF NOT EXISTS "${prefix}"`);
    expect(text).not.toMatch(/@\w|(?<!:):[a-z]/);
    await askPostgres(url, text);
    await askPostgres(url, text);
    expect((await backend({ prefix, schema: "verify" }).claim(request("a"))).state).toBe("granted");
  });

  test("verify makes nothing, and says what to do", async () => {
    const prefix = newPrefix();
    const asked = backend({ prefix, schema: "verify" }).claim(request("a"));
    await expect(asked).rejects.toMatchObject({ code: "unsupported", message: /migration\("t_/ });
    expect(await askPostgres(url, `SELECT 1 FROM pg_namespace WHERE nspname = '${prefix}'`)).toEqual([]);
  });

  test("another version is refused, and nothing of it is touched", async () => {
    const prefix = newPrefix();
    await backend({ prefix }).claim(request("a"));
    const version = `CREATE OR REPLACE FUNCTION "${prefix}".version() RETURNS integer LANGUAGE sql AS 'SELECT 99'`;
    await askPostgres(url, version);
    for (const schema of ["create", "verify"] as const) {
      const asked = backend({ prefix, schema }).claim(request("a"));
      await expect(asked).rejects.toMatchObject({ code: "unsupported", message: /version 99.*version 1/ });
    }
  });

  test("a schema that was dropped under us is made anew, and nobody is let in twice by the old one", async () => {
    const prefix = newPrefix();
    const one = backend({ prefix });
    const held = request("a");
    await one.claim(held);
    await askPostgres(url, `DROP SCHEMA "${prefix}" CASCADE`);
    await expect(one.claim(request("a"))).rejects.toMatchObject({ code: "backend" });
    const again = await one.claim(request("a"));
    expect(again.state).toBe("granted");
    expect(await one.release(held)).toBe(false);
  });
});

describe("rights", () => {
  test("whoever may only call the functions can do everything, and touch no table", async () => {
    const prefix = newPrefix();
    const role = `user_${prefix}`;
    await askPostgres(url, migration(prefix));
    // The grants that docs/engines/postgres.md lists.
    await askPostgres(
      url,
      `CREATE ROLE ${role} LOGIN; GRANT USAGE ON SCHEMA "${prefix}" TO ${role};
       GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA "${prefix}" TO ${role}`,
    );
    onTestFinished(async () => {
      await askPostgres(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`);
    });
    const own = url.replace("postgres@", `${role}@`);
    const locks = open({ url: own, prefix, schema: "verify" }, { ttl: "30s" });
    const lease = await locks.mutex("a").acquire();
    const waiting = open({ url: own, prefix }).mutex("a").acquire();
    await expect.poll(async () => (await locks.inspect("a")).waiters.length).toBe(1);
    await lease.release();
    await (await waiting).release();
    await locks.mutex("b").acquire();
    expect(await locks.forceRelease("b", { reason: "test" })).toHaveLength(1);
    await expect(askPostgres(own, `DELETE FROM "${prefix}".claims`)).rejects.toThrow(/permission denied/);
  });

  test("without them, the error says which page lists them", async () => {
    const prefix = newPrefix();
    const role = `user_${prefix}`;
    await askPostgres(url, `${migration(prefix)}; CREATE ROLE ${role} LOGIN`);
    onTestFinished(async () => {
      await askPostgres(url, `DROP ROLE ${role}`);
    });
    const own = url.replace("postgres@", `${role}@`);
    const missing = { code: "backend", retryable: false, message: /docs\/engines\/postgres\.md/ };
    await expect(backend({ url: own, prefix }).claim(request("a"))).rejects.toMatchObject(missing);
    const maker = backend({ url: own, prefix: newPrefix() });
    await expect(maker.claim(request("a"))).rejects.toMatchObject(missing);
  });
});

describe("what cannot be meant", () => {
  test.each(['lock"; DROP TABLE x; --', "", "9lives", "a".repeat(41), "zwei wörter"])(
    "the prefix %j is refused before anything is sent",
    (prefix) => {
      expect(() => postgres({ url, prefix })).toThrow(expect.objectContaining({ code: "invalid-option" }));
    },
  );

  test.each([
    [{}, /either a url or a pool/],
    [{ url, pool: {} as never }, /either a url or a pool/],
    [{ pool: {} as never }, /must be a pool/],
    [{ url: "postgres://h1,h2/db" }, /one host/],
    [{ url: "postgres://h/db?sslmode=perhaps" }, /sslmode/],
    [{ url: "postgres://h/db?application_name=x" }, /no parameter but sslmode/],
    [{ url, schema: "drop" as never }, /"create" or "verify"/],
    [{ url, connections: 0 }, /connections/],
    [{ url, retention: "1ms" as const }, /retention/],
  ])("%j is an invalid option", (options, message) => {
    const problem = expect.objectContaining({
      code: "invalid-option",
      message: expect.stringMatching(message),
    });
    expect(() => postgres(options)).toThrow(problem);
  });

  test("names, notes and reasons may hold whatever a string can hold", async () => {
    const locks = open();
    const name = `o'brien "quoted" \\ %_$body$ ; -- ${"é😀"}`;
    const note = 'nul \u0000, half \ud800, "quoted", $body$';
    const lease = await locks.mutex([name]).acquire({ note });
    const [seen] = (await locks.inspect(lease.name)).holders;
    expect(seen?.note).toBe(note);
    const reason = 'it\'s \u0000 $body$ "so"';
    await locks.forceRelease(lease.name, { reason, by: "'" });
    await expect.poll(() => lease.signal.aborted).toBe(true);
    expect(lease.signal.reason).toMatchObject({ loss: "forced", reason, by: "'" });
  });

  test("a wrong password is an error for good, and is not repeated in it", async () => {
    const secret = "s3cr3t-word";
    const asked = backend({ url: url.replace("postgres@", `nobody:${secret}@`) }).claim(request("a"));
    const error = (await asked.catch((thrown: unknown) => thrown)) as Error & { cause: Error };
    expect(error).toMatchObject({ code: "backend", retryable: false });
    expect(`${error.message} ${error.stack} ${JSON.stringify(error.cause)}`).not.toContain(secret);
  });

  test("a user whose transactions do not see what others commit is refused", async () => {
    const pool = poolOf(`${url}?options=-c%20default_transaction_isolation%3Dserializable`);
    await expect(backend({ pool }).claim(request("a"))).rejects.toMatchObject({
      code: "unsupported",
      message: /read committed/,
    });
  });
});
