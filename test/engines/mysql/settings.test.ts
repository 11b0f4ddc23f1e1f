import { describe, expect, onTestFinished, test } from "vitest";
import { askMariadb, isMysql, startMariadb } from "./server.js";
import { backend, newPrefix, open, request, sleep } from "./tools.js";

/** Settings of a server that could get in the way, each with what it would do. */
const SETTINGS: Readonly<Record<string, readonly string[]>> = {
  "ANSI mode, in which double quotes mean names": ["--sql-mode=ANSI,NO_BACKSLASH_ESCAPES"],
  "no mode at all, in which what does not fit is cut off": ["--sql-mode="],
  "TRADITIONAL mode, in which every warning is an error": ["--sql-mode=TRADITIONAL"],
  "SERIALIZABLE transactions, in which each read locks": ["--transaction-isolation=SERIALIZABLE"],
  "lock timeouts of one second": ["--innodb-lock-wait-timeout=1", "--lock-wait-timeout=1"],
  "autocommit off": ["--autocommit=0"],
};

const MYSQL_SETTINGS: Readonly<Record<string, readonly string[]>> = {
  "GTID consistency, which refuses some statements in transactions": [
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
  ],
  "tables without a primary key refused": ["--sql-require-primary-key=ON"],
};

const settings = { ...SETTINGS, ...(isMysql() ? MYSQL_SETTINGS : undefined) };

describe.each(Object.entries(settings))("a server with %s", (_, args) => {
  test("takes turns, grows tokens, keeps cells, and lets many come at once", async () => {
    const server = await startMariadb(args);
    onTestFinished(() => server.stop());
    const prefix = newPrefix();
    const all = Array.from({ length: 3 }, () =>
      open({ url: server.url, prefix }, { ttl: "10s", wait: "40s" }),
    );
    const tokens: bigint[] = [];
    let inside = 0;
    const work = all.flatMap((locks) =>
      Array.from({ length: 4 }, async () => {
        for (let round = 0; round < 4; round++) {
          await locks.mutex('it\'s \\ "hot"').run(async (lease) => {
            expect(++inside).toBe(1);
            tokens.push(lease.token);
            await sleep(1);
            inside--;
          });
        }
      }),
    );
    await Promise.all(work);
    expect(tokens).toHaveLength(48);
    expect(tokens.every((token, index) => index === 0 || token > (tokens[index - 1] ?? 0n))).toBe(true);
    const cell = all[0]?.cell<string>("cell");
    const text = 'it\'s \\ "so" \u0000';
    await cell?.write(text);
    expect((await all[1]?.cell<string>("cell").read())?.value).toBe(text);
    const one = backend({ url: server.url, prefix, timeout: "20s" });
    const claims = Array.from({ length: 16 }, (_, index) => request(`missing-${index % 4}`));
    const answers = await Promise.all(claims.map((claim) => one.claim(claim)));
    expect(answers.filter(({ state }) => state === "granted")).toHaveLength(4);
  });
});

test("a server on which updates without a key are refused lets a lock be taken away", async () => {
  const server = await startMariadb(["--init-connect=SET sql_safe_updates=1"]);
  onTestFinished(() => server.stop());
  // For a user who may do everything it is not run.
  await askMariadb(server.url, "CREATE USER plain@'127.0.0.1'; GRANT ALL ON locks.* TO plain@'127.0.0.1'");
  const one = backend({ url: server.url.replace("tester@", "plain@") });
  const claim = request("a");
  await one.claim(claim);
  expect(await one.release(claim, { reason: "test" })).toBe(true);
});
