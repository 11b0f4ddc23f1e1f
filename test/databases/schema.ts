import { describe, expect, onTestFinished, test } from "vitest";
import { newPrefix, queued, request, type TestedDatabase, toolsFor } from "./tested.js";

/** How the tables and routines come into a database, and who may use them. */
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
      await expect(asked).rejects.toMatchObject({ code: "unsupported", message: /migration\("t_/ });
      expect(await ask(url, sql.traces(prefix))).toEqual([]);
    });

    test("another version is refused, and nothing of it is touched", async () => {
      const prefix = newPrefix();
      await backend({ prefix }).claim(request("a"));
      await ask(url, sql.setVersion(prefix, 99));
      for (const schema of ["create", "verify"] as const) {
        const asked = backend({ prefix, schema }).claim(request("a"));
        await expect(asked).rejects.toMatchObject({ code: "unsupported", message: /version 99.*version 1/ });
      }
      expect(await ask(url, `SELECT 1 AS one FROM ${sql.table(prefix, "claims")}`)).toHaveLength(1);
    });

    test("what was dropped under us is made anew, and nobody is let in twice by the old one", async () => {
      const prefix = newPrefix();
      const one = backend({ prefix });
      const held = request("a");
      await one.claim(held);
      await ask(url, sql.drop(prefix));
      await expect(one.claim(request("a"))).rejects.toMatchObject({ code: "backend" });
      const again = await one.claim(request("a"));
      expect(again.state).toBe("granted");
      expect(await one.release(held)).toBe(false);
    });
  });

  describe("rights", () => {
    test("whoever may only call the routines can do everything, and touch no table", async () => {
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

    test("whoever makes the schema needs no more than the page lists", async () => {
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

    test("a wrong password is an error for good, and is not repeated in it", async () => {
      const secret = "s3cr3t-word";
      const wrong = url.replace(`${database.user}@`, `nobody:${secret}@`);
      const asked = backend({ url: wrong }).claim(request("a"));
      const error = (await asked.catch((thrown: unknown) => thrown)) as Error & { cause: Error };
      expect(error).toMatchObject({ code: "backend", retryable: false, message: /password/ });
      expect(`${error.message} ${error.stack} ${JSON.stringify(error.cause)}`).not.toContain(secret);
    });
  });
}
