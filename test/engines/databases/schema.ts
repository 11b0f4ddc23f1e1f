import { readFile } from "node:fs/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { newPrefix, queued, type Rows, request, type TestedDatabase, toolsFor } from "./tested-database.js";

/** How the tables and routines come into a database, and which users may use them. */
export function schemaPromises(database: TestedDatabase): void {
  const { url, ask, sql, page } = database;
  const { backend, open } = toolsFor(database);

  /** A user of the database that has no rights yet, and its URL. */
  async function newUser(): Promise<{ readonly name: string; readonly own: string }> {
    const name = `user_${newPrefix()}`;
    await ask(url, sql.makeUser(name));
    onTestFinished(async () => {
      await ask(url, sql.dropUser(name));
    });
    return { name, own: url.replace(`${database.user}@`, `${name}@`) };
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
      const text = database.migration(prefix);
      expect(text).toContain(`CREATE TABLE IF NOT EXISTS ${sql.table(prefix, "claims")}`);
      expect(text).not.toMatch(/@(resources|claims|forced|wall|asked|text|utf8|jsonlist)\b|(?<!:):[a-z]/);
      await database.runByHand(text);
      await database.runByHand(text);
      expect((await backend({ prefix, schema: "verify" }).claim(request("a"))).state).toBe("granted");
    });

    test("verify makes nothing, and says what to do", async () => {
      const prefix = newPrefix();
      const asked = backend({ prefix, schema: "verify" }).claim(request("a"));
      await expect(asked).rejects.toMatchObject({
        code: "unsupported",
        message: expect.stringMatching(/migration\("t_/),
      });
      expect(await ask(url, sql.traces(prefix))).toEqual([]);
    });

    test("tables that a newer release has changed are refused, and nothing of them is touched", async () => {
      const prefix = newPrefix();
      await backend({ prefix }).claim(request("a"));
      await ask(url, sql.setBreaking(prefix, 99));
      for (const schema of ["create", "verify"] as const) {
        const asked = backend({ prefix, schema }).claim(request("a"));
        await expect(asked).rejects.toMatchObject({
          code: "unsupported",
          message: expect.stringMatching(/newer release.*revision 99.*revision 4/),
        });
      }
      expect(await ask(url, `SELECT 1 AS one FROM ${sql.table(prefix, "claims")}`)).toHaveLength(1);
    });

    test("a release that is at work, and has become too old, is told when its routines are dropped", async () => {
      const prefix = newPrefix();
      const one = backend({ prefix });
      await one.claim(request("a"));
      // What a release does that the others cannot share the tables with.
      await ask(url, sql.setBreaking(prefix, 99));
      await ask(url, sql.dropRoutines(prefix));
      await expect(one.claim(request("b"))).rejects.toMatchObject({ code: "unsupported", retryable: false });
    });

    test("locks of the release before this one and of this one exclude each other, and tokens only grow", async () => {
      const prefix = newPrefix();
      const file = new URL(database.oldMigration, import.meta.url);
      const text = (await readFile(file, "utf8")).replaceAll("PREFIX", prefix);
      await database.runByHand(text);
      const one = backend({ prefix });
      const old = async (id: string) => {
        const [row] = (await ask(url, sql.oldClaim(prefix, "a", id))).flat() as Rows;
        return { verdict: row?.verdict, ticket: BigInt(String(row?.ticket)) };
      };
      const mine = request("a");
      const first = await one.claim(mine);
      if (first.state !== "granted") throw new Error("it is the first");
      expect((await old("id-1")).verdict).toBe("waiting");
      expect(await one.release(mine)).toBe(true);
      const second = await old("id-1");
      expect(second.verdict).toBe("granted");
      expect(second.ticket).toBeGreaterThan(first.ticket);
      const next = request("a");
      expect((await one.claim(next)).state).toBe("waiting");
      await ask(url, sql.oldRelease(prefix, "a", "id-1"));
      const third = await one.claim(next);
      if (third.state !== "granted") throw new Error("its turn has come");
      expect(third.ticket).toBeGreaterThan(second.ticket);
      // An older release may make its own again, and harms nothing.
      await database.runByHand(text);
      expect((await old("id-2")).verdict).toBe("waiting");
      expect(await one.release(next)).toBe(true);
    });

    test("what was dropped under us is made anew, and no second holder is let in by the old one", async () => {
      const prefix = newPrefix();
      const one = backend({ prefix });
      const held = request("a");
      await one.claim(held);
      await ask(url, sql.drop(prefix));
      const again = await one.claim(request("a"));
      expect(again.state).toBe("granted");
      expect(await one.release(held)).toBe(false);
    });
  });

  describe("rights", () => {
    test("a user that may only call the routines can do everything, and touch no table", async () => {
      const prefix = newPrefix();
      await backend({ prefix }).claim(request("warm"));
      const { name, own } = await newUser();
      await ask(url, sql.allow(prefix, name));
      const locks = open({ url: own, prefix, schema: "verify" }, { ttl: "30s" });
      const lease = await locks.mutex("a").acquire();
      const waiting = open({ url: own, prefix }).mutex("a").acquire();
      await queued(locks, "a", 1);
      await lease.release();
      await (await waiting).release();
      await locks.mutex("b").acquire();
      expect(await locks.forceRelease("b", { reason: "test" })).toHaveLength(1);
      await expect(ask(own, `DELETE FROM ${sql.table(prefix, "claims")}`)).rejects.toThrow(/denied/);
    });

    test("the user that makes the schema needs no more than the page lists", async () => {
      const { name, own } = await newUser();
      await ask(url, sql.allowMaking(name));
      const locks = open({ url: own });
      expect(await locks.mutex("a").run((lease) => lease.held)).toBe(true);
    });

    test("without them, the error says which page lists them", async () => {
      const prefix = newPrefix();
      await backend({ prefix }).claim(request("warm"));
      const { own } = await newUser();
      const missing = { code: "backend", retryable: false, message: expect.stringContaining(page) };
      await expect(backend({ url: own, prefix }).claim(request("a"))).rejects.toMatchObject(missing);
      const maker = backend({ url: own, prefix: newPrefix() });
      await expect(maker.claim(request("a"))).rejects.toMatchObject(missing);
    });

    test("where an older release has made the tables, a user who may only call is told to run the migration", async () => {
      const prefix = newPrefix();
      const file = new URL(database.oldMigration, import.meta.url);
      await database.runByHand((await readFile(file, "utf8")).replaceAll("PREFIX", prefix));
      const { name, own } = await newUser();
      await ask(url, sql.allow(prefix, name));
      await expect(backend({ url: own, prefix }).claim(request("a"))).rejects.toMatchObject({
        retryable: false,
        message: expect.stringMatching(/migration/),
      });
    });

    test("a wrong password is an error for good, and is not repeated in it", async () => {
      const secret = "s3cr3t-word";
      const wrong = url.replace(`${database.user}@`, `nobody:${secret}@`);
      const asked = backend({ url: wrong }).claim(request("a"));
      const error = (await asked.catch((thrown: unknown) => thrown)) as Error & { cause: Error };
      expect(error).toMatchObject({
        code: "backend",
        retryable: false,
        message: expect.stringMatching(/password/),
      });
      expect(`${error.message} ${error.stack} ${JSON.stringify(error.cause)}`).not.toContain(secret);
    });
  });
}
