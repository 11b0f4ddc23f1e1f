import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { sqlite } from "#lib/backends/sqlite/index.js";
import { sharedFileSystem } from "#lib/backends/sqlite/system.js";
import { openDatabase } from "./default-library.js";
import { grantedTicket, newFile, newFolder, open, openRaw, refusal, request } from "./tools.js";

/** What a child says next; an early end is an error. */
async function nextMessage(child: ChildProcess): Promise<unknown> {
  const ended = once(child, "exit").then(([code]) => {
    throw new Error(`a child ended early, with ${code}`);
  });
  const [message] = await Promise.race([once(child, "message"), ended]);
  ended.catch(() => {});
  return message;
}

describe("first use", () => {
  test("processes that race for a fresh file all get in, one at a time, with growing tickets", async () => {
    const file = await newFile();
    const racer = fileURLToPath(new URL("./racer.mjs", import.meta.url));
    const children = Array.from({ length: 5 }, () => fork(racer, [file, "40"]));
    onTestFinished(() => void children.map((child) => child.kill("SIGKILL")));
    await Promise.all(children.map(nextMessage));
    const results = children.map(nextMessage);
    for (const child of children) child.send("go");
    const tickets = (await Promise.all(results)).map((list) => (list as string[]).map(BigInt));
    for (const own of tickets) expect(own).toEqual([...own].sort((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tickets.flat()).size).toBe(5 * 40);
  });

  test("without a file, the locks are in the user's state directory, in a folder for the user alone", async () => {
    const state = await newFolder();
    vi.stubEnv("XDG_STATE_HOME", state);
    onTestFinished(() => void vi.unstubAllEnvs());
    await grantedTicket(open({}), "x", "id-1");
    expect((await stat(join(state, "locktender"))).mode & 0o777).toBe(0o700);
    expect((await stat(join(state, "locktender", "locks.db"))).isFile()).toBe(true);
  });

  test("nothing is opened or created before the first question", async () => {
    const file = await newFile();
    await open({ file }).close();
    await expect(stat(file)).rejects.toThrow(/ENOENT/);
  });
});

describe("what is refused", () => {
  test.each([1, 3])("a file with tables of another version, %i, is refused, and says so", async (version) => {
    const file = await newFile();
    await grantedTicket(open({ file }), "x", "id-1");
    openRaw(file).exec(`PRAGMA user_version = ${version}`);
    const error = await refusal(open({ file }).claim(request("x", "id-2")));
    expect(error).toMatchObject({ code: "unsupported", retryable: false });
    expect(String(error)).toContain(`version ${version}`);
  });

  test("a database of something else is refused, and nothing in it is changed", async () => {
    const file = await newFile();
    const db = openRaw(file);
    db.exec("CREATE TABLE accounts (id)");
    const error = await refusal(open({ file }).claim(request("x", "id-1")));
    expect(error).toMatchObject({ code: "unsupported" });
    expect(db.prepare("PRAGMA journal_mode").all()).toMatchObject([{ journal_mode: "delete" }]);
    expect(db.prepare("SELECT name FROM sqlite_schema").all()).toMatchObject([{ name: "accounts" }]);
  });

  test("a file that is no database is an error of the engine, never a grant", async () => {
    const file = await newFile();
    await writeFile(file, "not a database, but a text that is long enough to look at. ".repeat(100));
    const error = await refusal(open({ file }).claim(request("x", "id-1")));
    expect(error).toMatchObject({ code: "backend", retryable: false });
    expect(String(error)).toContain(file);
  });

  test("a file that cannot be opened is an error of the engine that names it", async () => {
    const folder = await newFolder();
    await writeFile(join(folder, "file"), "");
    for (const path of ["missing/locks.db", "file/locks.db", "."]) {
      const file = join(folder, path);
      const error = await refusal(open({ file }).claim(request("x", "id-1")));
      expect(error, path).toMatchObject({ code: "backend", retryable: false });
      expect(String(error)).toContain(
        `${file.replace(/\/$/, "")} failed: it cannot be opened. Its folder must exist`,
      );
    }
  });

  test("file systems that other machines may share are told apart from local ones", () => {
    expect(sharedFileSystem(0x6969n)).toBe("NFS");
    expect(sharedFileSystem(BigInt.asIntN(64, 0xffffffffff534d42n))).toBe("CIFS");
    expect(sharedFileSystem(0xfe534d42n)).toBe("SMB2");
    expect(sharedFileSystem(0x01021997n)).toBe("9p");
    const local = { ext4: 0xef53n, xfs: 0x58465342n, btrfs: 0x9123683en, tmpfs: 0x01021994n };
    for (const type of Object.values(local)) expect(sharedFileSystem(type)).toBeUndefined();
  });

  test("invalid options are refused at once", () => {
    const database = openDatabase(":memory:");
    expect(() => sqlite({ file: "" })).toThrow(/path of a file/);
    expect(() => sqlite({ file: ":memory:" })).toThrow(/memory engine/);
    expect(() => sqlite({ file: "a.db", database })).toThrow(/either/);
    expect(() => sqlite({ retention: "soon" as "1s" })).toThrow(/retention/);
    expect(() => sqlite({ path: "a.db" } as object)).toThrow(/path/);
    database.close();
  });
});
