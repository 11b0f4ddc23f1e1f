import { randomBytes } from "node:crypto";
import { createLocks, type Locks, type LocksOptions } from "locktender";
import { type MysqlOptions, mysql } from "locktender/mysql";
import { createPool, type Pool } from "mysql2/promise";
import { onTestFinished } from "vitest";
import type { Backend, ClaimRequest } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { database } from "../support/database.js";

export const SERVER = await database("mariadb");

export { eventually, queued, sleep } from "#lib/testing/suite/bench.js";

export function newPrefix(): string {
  return `t_${randomBytes(6).toString("hex")}`;
}

function make(options: MysqlOptions): Backend {
  const target = options.pool === undefined ? { url: SERVER.url } : {};
  return mysql({ ...target, prefix: newPrefix(), ...options });
}

export function backend(options: MysqlOptions = {}): Backend {
  const opened = make(options);
  onTestFinished(() => opened.close());
  return opened;
}

export function open(options: MysqlOptions = {}, settings: LocksOptions = {}): Locks {
  const locks = createLocks(make(options), settings);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

export function poolOf(max = 4, more: object = {}): Pool {
  const pool = createPool({ uri: SERVER.url, connectionLimit: max, ...more });
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
