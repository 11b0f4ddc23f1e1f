import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type SqliteDatabase, type SqliteOptions, sqlite } from "#lib/backends/sqlite/index.js";
import type { Backend, ClaimRequest } from "#lib/core/backend.js";
import { openDatabase } from "./default-library.js";

export const OWNER = { instance: "test", host: "here", pid: process.pid };

/** A folder of this test's own. */
export async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function newFile(): Promise<string> {
  return join(await newFolder(), "locks.db");
}

/** A backend that is closed with the test. */
export function open(options: SqliteOptions): Backend {
  const backend = sqlite(options);
  onTestFinished(() => backend.close());
  return backend;
}

/** The file as another program would open it. */
export function openRaw(file: string): SqliteDatabase {
  const db = openDatabase(file);
  db.exec("PRAGMA busy_timeout = 1000");
  onTestFinished(() => {
    if (db.open) db.close();
  });
  return db;
}

/** A mutex' claim, unless said otherwise. */
export function request(name: string, id: string, other: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    name,
    id,
    weight: 1,
    capacity: 1,
    ttlMs: 10_000,
    fixed: false,
    minHoldMs: 0,
    queue: true,
    owner: OWNER,
    note: "",
    ...other,
  };
}

export async function grantedTicket(
  backend: Backend,
  name: string,
  id: string,
  other: Partial<ClaimRequest> = {},
): Promise<bigint> {
  const answer = await backend.claim(request(name, id, other));
  if (answer.state !== "granted") throw new Error(`expected a grant, not ${answer.state}`);
  return answer.ticket;
}

export async function names(backend: Backend, prefix: string): Promise<string[]> {
  const found: string[] = [];
  for await (const record of backend.list({ prefix })) found.push(record.name);
  return found;
}

export async function refusal(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("expected a rejection");
}
