import { appendFile, writeFile } from "node:fs/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import type { SqlConnection } from "#lib/backends/sql/connection.js";
import { Poller } from "#lib/backends/sql/poller.js";
import { WaiterRegistry } from "#lib/backends/sql/waiter-registry.js";
import { FileWatch } from "#lib/backends/sqlite/file-watch.js";
import { LockFile } from "#lib/backends/sqlite/lock-file.js";
import { newFile } from "./tools.js";

test("the claims of waiters from before a file was opened anew are looked at when its log moves", async () => {
  const log = await newFile();
  await writeFile(log, "");
  let looks = 0;
  const call = async () => {
    looks++;
    return [];
  };
  const connection: SqlConnection = { renewalsPerCall: 1, call, close: async () => {} };
  const waiters = new WaiterRegistry();
  // Its timer is off: only the log can make it look.
  const fileWatch = new FileWatch(() => log, waiters, new Poller(connection, waiters));
  onTestFinished(() => fileWatch.close());
  const claim = { name: "x", id: "id" };
  waiters.watch(claim, () => {});
  waiters.answered(claim, { state: "waiting", ticket: 1n, remainingMs: 1_000, changeInMs: 1_000 }, 1n);
  fileWatch.lost();
  fileWatch.opened();
  await appendFile(log, "moved");
  await vi.waitFor(() => expect(looks).toBeGreaterThan(0));
});

test("a file that is opened anew says so, after it was lost", async () => {
  const said: string[] = [];
  const listener = { opened: () => void said.push("opened"), lost: () => void said.push("lost") };
  const source = { file: await newFile(), createFolder: false };
  const file = new LockFile({ name: "the lock file", source, busyMs: 1_000 }, () => listener);
  onTestFinished(() => file.close());
  await file.use((session) => {
    session.broken = true;
  });
  await file.use(() => undefined);
  expect(said).toEqual(["opened", "lost", "opened"]);
});
