import { rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import Database from "libsql";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { isBusy } from "#lib/backends/sqlite/errors.js";
import type { SqliteDatabase, SqliteStatement } from "#lib/backends/sqlite/index.js";
import { grantedTicket, names, newFile, open, openRaw, refusal, request } from "./tools.js";

describe("a disk that is full", () => {
  test("it is an error of the engine, never a grant, and passes when there is room again", async () => {
    const database = openRaw(await newFile());
    const backend = open({ database });
    await grantedTicket(backend, "x", "id-1");
    database.exec("PRAGMA max_page_count = 1");
    const filling = async () => {
      for (let n = 0; n < 100; n++)
        await grantedTicket(backend, `y:${n}`, `id-${n}`, { note: "n".repeat(1_000) });
    };
    expect(await refusal(filling())).toMatchObject({ code: "backend", retryable: true });
    const kept = await names(backend, "y:");
    expect(kept.length).toBeLessThan(100);
    // What is there can be given back, and the claim that failed has left nothing.
    expect(await backend.release({ name: "x", id: "id-1" })).toBe(true);
    database.exec("PRAGMA max_page_count = 100000");
    const next = `y:${kept.length}`;
    expect((await backend.claim(request(next, "somebody else"))).state).toBe("granted");
  });
});

describe("a file that is busy", () => {
  test("a transaction that lasts too long is an error that may pass, within the bound", async () => {
    const file = await newFile();
    const backend = open({ file, busyTimeout: "200ms" });
    await grantedTicket(backend, "x", "id-1");
    const other = openRaw(file);
    other.exec("BEGIN IMMEDIATE");
    const startMs = performance.now();
    const errors = await Promise.all(
      ["id-2", "id-3", "id-4"].map((id) => refusal(backend.claim(request("x", id)))),
    );
    expect(performance.now() - startMs).toBeLessThan(1_000);
    for (const error of errors) {
      expect(error).toMatchObject({ code: "backend", retryable: true });
      expect(String(error)).not.toMatch(/id-\d/);
    }
    other.exec("ROLLBACK");
    expect((await backend.claim(request("x", "id-5"))).state).toBe("waiting");
  });

  test("it is recognised in every way in which the libraries tell it", () => {
    const busy = [
      { rawCode: 5, code: "SQLITE_BUSY" },
      { rawCode: 261, code: "UNKNOWN_SQLITE_ERROR_261" },
      { code: "SQLITE_BUSY_SNAPSHOT" },
      { message: 'ConnectionFailed("Unable to open connection to local database /a: 1: 5")' },
      // Of node:sqlite, and of Deno's, which leaves the number out of some.
      { code: "ERR_SQLITE_ERROR", errcode: 517 },
      { code: "ERR_SQLITE_ERROR", message: "database is locked" },
    ];
    const other = [
      { rawCode: 13, code: "SQLITE_FULL" },
      { code: "SQLITE_CANTOPEN" },
      { code: "ENOENT" },
      { code: "ERR_SQLITE_ERROR", errcode: 14 },
      { code: "ERR_SQLITE_ERROR", message: "unable to open database file: /a" },
      {},
    ];
    const judged = (about: object) => isBusy(Object.assign(new Error(), about));
    expect(busy.map(judged)).toEqual(busy.map(() => true));
    expect(other.map(judged)).toEqual(other.map(() => false));
  });

  test("a shorter one is waited for, in order of arrival, while the event loop runs on", async () => {
    const file = await newFile();
    const backend = open({ file });
    await names(backend, "");
    const other = openRaw(file);
    other.exec("BEGIN IMMEDIATE");
    let ticks = 0;
    const ticking = setInterval(() => ticks++, 5);
    const claims = ["id-1", "id-2", "id-3"].map((id) => backend.claim(request("x", id)));
    setTimeout(() => other.exec("ROLLBACK"), 150);
    const states = (await Promise.all(claims)).map(({ state }) => state);
    clearInterval(ticking);
    expect(states).toEqual(["granted", "waiting", "waiting"]);
    expect(ticks).toBeGreaterThan(5);
  });

  test("what was answered while others hold the file up again and again is not undone", async () => {
    const file = await newFile();
    const backend = open({ file });
    await names(backend, "");
    const other = openRaw(file);
    const look = openRaw(file).prepare("SELECT count(*) AS n FROM claims");
    for (let turn = 0; turn < 60; turn++) {
      other.exec("BEGIN IMMEDIATE");
      const claimed = backend.claim(request("x", `id-${turn}`));
      setTimeout(() => other.exec("ROLLBACK"), turn % 4);
      expect((await claimed).state).toBe("granted");
      expect(look.get()).toMatchObject({ n: 1 });
      expect(await backend.release({ name: "x", id: `id-${turn}` })).toBe(true);
      expect(look.get()).toMatchObject({ n: 0 });
    }
  });
});

describe("what libsql does to a statement that found the file busy", () => {
  test("one that was prepared stays active, and undoes what is committed by itself after it; exec does not", async () => {
    const file = await newFile();
    const [db, other] = [new Database(file), new Database(file)];
    onTestFinished(() => [db, other].forEach((each) => void each.close()));
    db.exec("PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 0; CREATE TABLE t (n)");
    const begin = db.prepare("BEGIN IMMEDIATE");
    const insert = db.prepare("INSERT INTO t VALUES (1)");
    const seenByOthers = (busy: () => unknown) => {
      other.exec("DELETE FROM t; BEGIN IMMEDIATE");
      expect(busy).toThrow(/locked/);
      other.exec("ROLLBACK");
      insert.run();
      return (other.prepare("SELECT count(*) AS n FROM t").get() as { n: number }).n;
    };
    expect(seenByOthers(() => db.exec("BEGIN IMMEDIATE"))).toBe(1);
    // Should this become 1, then libsql resets its statements, and the session may prepare its own.
    expect(seenByOthers(() => begin.run())).toBe(0);
  });

  test("so nothing is written outside a transaction, and no transaction begins with a prepared statement", async () => {
    const database = openRaw(await newFile());
    const outside: string[] = [];
    const prepare = database.prepare.bind(database);
    const spied: SqliteDatabase = {
      open: true,
      get inTransaction() {
        return database.inTransaction;
      },
      exec: (source) => database.exec(source),
      close: () => database.close(),
      prepare(source) {
        const statement = prepare(source) as SqliteStatement;
        const writes = /\b(INSERT|UPDATE|DELETE|BEGIN|COMMIT|ROLLBACK)\b/.test(
          source.replace(/^--.*$/gm, ""),
        );
        const checked =
          (run: (...params: unknown[]) => unknown) =>
          (...params: unknown[]) => {
            if (writes && !database.inTransaction) outside.push(source);
            return run.apply(statement, params);
          };
        return {
          ...statement,
          run: checked(statement.run),
          get: checked(statement.get),
          all: checked(statement.all),
          raw: (on) => statement.raw(on),
          safeIntegers: (on) => statement.safeIntegers(on),
        } as SqliteStatement;
      },
    };
    const backend = open({ database: spied });
    for (let n = 0; n < 40; n++) {
      const ticket = await grantedTicket(backend, `x:${n}`, "id", {
        minHoldMs: n % 2,
        ttlMs: n % 3 === 0 ? 1 : 1_000,
      });
      await backend.claim(request(`x:${n}`, "waiter", { maxWaiters: 1 }));
      await backend.renew([{ name: `x:${n}`, id: "id", ticket, ttlMs: 1_000 }]);
      await backend.release({ name: `x:${n}`, id: "id" }, n % 4 === 0 ? { reason: "test" } : undefined);
      await names(backend, "x");
    }
    expect(outside).toEqual([]);
  });
});

describe("a file that is deleted while it is in use", () => {
  test("its claims are gone for all processes, and the next ones meet in the new file", async () => {
    const file = await newFile();
    const [one, two] = [open({ file }), open({ file })];
    const first = await grantedTicket(one, "x", "id-1");
    for (const suffix of ["", "-wal", "-shm"]) await rm(file + suffix, { force: true });
    const second = await grantedTicket(two, "x", "id-2");
    expect(second).toBeGreaterThan(first);
    const renewals = await one.renew([{ name: "x", id: "id-1", ticket: first, ttlMs: 1_000 }]);
    expect(renewals).toEqual([{ state: "gone", loss: "taken" }]);
    expect((await one.claim(request("x", "id-3"))).state).toBe("waiting");
  });

  test("one that goes while it is being opened locks no other process out, so it is opened again", async () => {
    const file = await newFile();
    const byLibsql = () => open({ file, library: "libsql" });
    await grantedTicket(byLibsql(), "before", "id-0");
    const { prepare } = Database.prototype;
    let openings = 0;
    const spy = vi.spyOn(Database.prototype, "prepare").mockImplementation(function (
      this: Database.Database,
      source,
    ) {
      if (source.includes("boot FROM machine") && openings++ === 0)
        for (const suffix of ["", "-wal", "-shm"]) rmSync(file + suffix, { force: true });
      return prepare.call(this, source);
    });
    onTestFinished(() => spy.mockRestore());
    await grantedTicket(byLibsql(), "x", "id-1");
    expect(openings).toBeGreaterThan(0);
    expect((await byLibsql().claim(request("x", "id-2"))).state).toBe("waiting");
  });
});

describe("a backend that is closed", () => {
  test("it answers nothing any more, and closing it again changes nothing", async () => {
    const backend = open({ file: await newFile() });
    const ticket = await grantedTicket(backend, "x", "id-1");
    await Promise.all([backend.close(), backend.close()]);
    await backend.close();
    const questions = [
      backend.claim(request("x", "id-2")),
      backend.renew([{ name: "x", id: "id-1", ticket, ttlMs: 1_000 }]),
      backend.release({ name: "x", id: "id-1" }),
      names(backend, ""),
    ];
    for (const question of questions) expect(await refusal(question)).toMatchObject({ code: "closed" });
  });

  test("a question that still waits for the file is turned away", async () => {
    const file = await newFile();
    const backend = open({ file });
    await names(backend, "");
    openRaw(file).exec("BEGIN IMMEDIATE");
    const asked = refusal(backend.claim(request("x", "id-1")));
    await backend.close();
    expect(await asked).toMatchObject({ code: "closed" });
  });
});
