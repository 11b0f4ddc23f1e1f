import Libsql from "libsql";
import type { SqliteOptions } from "locktender/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { notHere } from "../../support/runner.js";
import { betterSqlite3, NOT_INSTALLED } from "./better-sqlite3.js";
import { NO_NODE_SQLITE, nodeSqlite } from "./default-library.js";
import { grantedTicket, newFile, open, refusal, request } from "./tools.js";

type Database = NonNullable<SqliteOptions["database"]>;
/** With big integers, or without: each library is told in its own way. */
type Bring = (file: string, big: boolean) => Database;
type Library = new (file: string) => Database & { defaultSafeIntegers(toggle: boolean): Database };

const byMethod = (Library: unknown): Bring | undefined =>
  Library === undefined ? undefined : (file, big) => new (Library as Library)(file).defaultSafeIntegers(big);
const Node = nodeSqlite();
const LIBRARIES: Readonly<Record<string, Bring | undefined>> = {
  "node:sqlite": Node && ((file, big) => new Node(file, { readBigInts: big })),
  libsql: byMethod(Libsql),
  "better-sqlite3": byMethod(betterSqlite3()),
};

for (const [library, make] of Object.entries(LIBRARIES)) {
  const title = `a database of ${library} that was brought along`;
  if (make !== undefined) describe(title, () => brought(make));
  else notHere(title, library === "node:sqlite" ? NO_NODE_SQLITE : NOT_INSTALLED);
}

function brought(make: Bring): void {
  function bring(file: string, big = false): Database {
    const database = make(file, big);
    onTestFinished(() => void database.close());
    return database;
  }

  test("it is used, and stays open when the backend is closed", async () => {
    const file = await newFile();
    const database = bring(file);
    const backend = open({ database });
    await grantedTicket(backend, "x", "id-1");
    await backend.close();
    expect(database.prepare("SELECT count(*) AS n FROM claims").get()).toMatchObject({ n: 1 });
    const answer = await open({ database: bring(file) }).claim(request("x", "id-2"));
    expect(answer.state).toBe("waiting");
  });

  test("it may be in memory", async () => {
    const backend = open({ database: bring(":memory:") });
    await grantedTicket(backend, "x", "id-1");
    expect((await backend.claim(request("x", "id-2"))).state).toBe("waiting");
  });

  test("a transaction of its owner is never joined: we wait until it is over", async () => {
    const database = bring(await newFile());
    const backend = open({ database, busyTimeout: "100ms" });
    await grantedTicket(backend, "x", "id-1");
    database.exec("BEGIN");
    expect(await refusal(backend.release({ name: "x", id: "id-1" }))).toMatchObject({
      code: "backend",
      retryable: true,
    });
    const released = backend.release({ name: "x", id: "id-1" });
    database.exec("ROLLBACK");
    expect(await released).toBe(true);
  });

  test("a transaction of another connection on the file is waited for, for as long as was said", async () => {
    const file = await newFile();
    const backend = open({ database: bring(file), busyTimeout: "100ms" });
    await grantedTicket(backend, "x", "id-1");
    const other = bring(file);
    other.exec("BEGIN IMMEDIATE");
    expect(await refusal(backend.claim(request("y", "id-2")))).toMatchObject({
      code: "backend",
      retryable: true,
    });
    const claimed = backend.claim(request("y", "id-2"));
    other.exec("ROLLBACK");
    expect((await claimed).state).toBe("granted");
  });

  test("one that cannot be written to is an error for good that says so", async () => {
    const database = bring(await newFile());
    const backend = open({ database });
    await grantedTicket(backend, "y", "id-1");
    database.exec("PRAGMA query_only = 1");
    const error = await refusal(backend.claim(request("x", "id-2")));
    expect(error).toMatchObject({ code: "backend", retryable: false });
    expect(String(error)).toMatch(/cannot be written to/);
  });

  test("it may be set to big integers", async () => {
    const backend = open({ database: bring(await newFile(), true) });
    const ticket = await grantedTicket(backend, "x", "id-1");
    expect(await backend.renew([{ name: "x", id: "id-1", ticket, ttlMs: 1_000 }])).toMatchObject([
      { state: "held" },
    ]);
  });
}
