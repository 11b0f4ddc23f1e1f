import { createLocks } from "locktender";
import { mysql } from "locktender/mysql";
import { createPool as createCallbackPool } from "mysql2";
import { describe, expect, test } from "vitest";
import { optionPromises } from "../databases/options.js";
import { schemaPromises } from "../databases/schema.js";
import { backend, DATABASE, newPrefix, poolOf, request, SERVER } from "./tools.js";

const { url } = SERVER;

schemaPromises(DATABASE);
optionPromises(DATABASE);

test("a url without a database is an invalid option", () => {
  const refused = expect.objectContaining({
    code: "invalid-option",
    message: expect.stringMatching(/must name a database/),
  });
  expect(() => mysql({ url: "mysql://127.0.0.1" })).toThrow(refused);
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

  test("one that speaks another character set is refused, because names could meet", async () => {
    const prefix = newPrefix();
    await backend({ prefix }).claim(request("warm"));
    const pool = poolOf(1, { charset: "latin1" });
    await expect(backend({ prefix, pool }).claim(request("a"))).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringMatching(/utf8mb4/),
    });
  });
});
