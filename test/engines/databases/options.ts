import { describe, expect, test } from "vitest";
import { newPrefix, request, type TestedDatabase, toolsFor } from "./tested-database.js";

/** To either engine. */
const LOOKS_LIKE_A_POOL = { connect() {}, query() {}, totalCount: 0, getConnection() {}, promise() {} };

/** What is refused before anything is sent, and what may be meant however odd it looks. */
export function optionPromises(database: TestedDatabase): void {
  const { url, quote } = database;
  const { backend, open } = toolsFor(database);
  const scheme = url.slice(0, url.indexOf(":"));

  describe("invalid input", () => {
    test.each([`lock${quote}; DROP TABLE x; --`, "", "9lives", "a".repeat(41), "zwei wörter"])(
      "the prefix %j is refused before anything is sent",
      (prefix) => {
        const refused = expect.objectContaining({ code: "invalid-option" });
        expect(() => database.open({ url, prefix })).toThrow(refused);
      },
    );

    test.each([
      [{}, /either a url or a pool/],
      [{ url, pool: {} as never }, /either a url or a pool/],
      [{ pool: {} as never }, /must be a pool/],
      [{ pool: LOOKS_LIKE_A_POOL as never, connections: 2 }, /has them already/],
      [{ url: `${scheme}://h1,h2/db?target_session_attrs=any` }, /read-write or primary/],
      [{ url: `${scheme}://h/db?sslmode=perhaps` }, /sslmode/],
      [{ url: `${scheme}://h/db?application=x` }, /"application".*Known are: .*sslmode/],
      [{ url, schema: "drop" as never }, /"create" or "verify"/],
      [{ url, connections: 0 }, /connections/],
      [{ url, retention: "1ms" as const }, /retention/],
      [{ url, conections: 4 } as never, /no option "conections"/],
    ])("%j is an invalid option", (options, message) => {
      const problem = expect.objectContaining({
        code: "invalid-option",
        message: expect.stringMatching(message),
      });
      expect(() => database.open(options)).toThrow(problem);
    });
  });

  describe("what may be meant", () => {
    test("a prefix that has to be quoted", async () => {
      const one = backend({ prefix: `${newPrefix()}-And-Case` });
      expect((await one.claim(request("a"))).state).toBe("granted");
    });

    test("names, notes and reasons may hold whatever a string can hold", async () => {
      const locks = open();
      const name = `o'brien "quoted" \\ %_\`$body$ ; -- ${"é😀"}`;
      const note = 'nul \u0000, half \ud800, "quoted", \\, $body$';
      const lease = await locks.mutex([name]).acquire({ note });
      const [seen] = (await locks.inspect(lease.name)).holders;
      expect(seen?.note).toBe(note);
      const reason = 'it\'s \u0000 "so" \\ $body$';
      await locks.forceRelease(lease.name, { reason, by: "'" });
      await expect.poll(() => lease.signal.aborted, { timeout: 5_000 }).toBe(true);
      expect(lease.signal.reason).toMatchObject({ loss: "forced", reason, by: "'" });
    });
  });
}
