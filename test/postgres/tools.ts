import { randomBytes } from "node:crypto";
import { createLocks, type Locks, type LocksOptions } from "locktender";
import { type PostgresOptions, postgres } from "locktender/postgres";
import { Pool } from "pg";
import { onTestFinished } from "vitest";
import type { Backend, ClaimRequest } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { database } from "../support/database.js";

export const SERVER = await database("postgres");

export { eventually, queued, sleep } from "#lib/testing/suite/bench.js";

export function newPrefix(): string {
  return `t_${randomBytes(6).toString("hex")}`;
}

export function backend(options: PostgresOptions = {}): Backend {
  const target = options.pool === undefined ? { url: SERVER.url } : {};
  const opened = postgres({ ...target, prefix: newPrefix(), ...options });
  onTestFinished(() => opened.close());
  return opened;
}

export function open(options: PostgresOptions = {}, settings: LocksOptions = {}): Locks {
  const target = options.pool === undefined ? { url: SERVER.url } : {};
  const locks = createLocks(postgres({ ...target, prefix: newPrefix(), ...options }), settings);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

export function poolOf(url = SERVER.url, max = 4): Pool {
  const pool = new Pool({ connectionString: url, max });
  pool.on("error", () => {});
  onTestFinished(() => pool.end());
  return pool;
}

let last = 0;

/** An exclusive claim that waits if it must. */
export function request(name: string, more: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    name,
    id: `claim-${process.pid}-${++last}`,
    weight: WHOLE,
    capacity: WHOLE,
    ttlMs: 30_000,
    fixed: false,
    minHoldMs: 0,
    queue: true,
    owner: { instance: "test", host: "here", pid: 1 },
    note: "",
    ...more,
  };
}
