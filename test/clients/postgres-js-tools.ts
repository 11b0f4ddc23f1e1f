import { createLocks } from "locktender";
import { type PostgresOptions, postgres } from "locktender/postgres";
import type { Options, PostgresType, Sql } from "postgres";
import { onTestFinished } from "vitest";
import { database } from "../engines/databases/shared-database.js";
import { clientLibrary } from "../support/client-library.js";

type Library = typeof import("postgres");
export const { default: makeSql } = await clientLibrary<{ readonly default: Library }>("postgres");
export const server = await database("postgres");
export const SOON = { timeout: 10_000, interval: 20 };
export type CallerOptions = Omit<Options<Record<string, PostgresType>>, "host" | "port">;

/** Its own connections, if it makes any, ask for no types: where one breaks meanwhile, it ends the process. */
export const sqlAt = ({ host, port }: { host: string; port: number }, more: CallerOptions = {}): Sql =>
  makeSql({
    host,
    port,
    username: "postgres",
    database: "postgres",
    max: 4,
    fetch_types: false,
    ...more,
  }) as Sql;

/** Ends with the test. */
export function opened(
  at: { host: string; port: number },
  options: Pick<PostgresOptions, "connections" | "timeout"> = {},
) {
  const sql = sqlAt(at);
  const prefix = `postgres_js_${process.pid}_${Math.random().toString(36).slice(2)}`;
  const locks = createLocks(postgres({ sql, prefix, ...options }), { ttl: "3s", wait: "20s" });
  onTestFinished(async () => {
    await locks.close({ drain: 0, abort: 0 });
    await sql.end({ timeout: 1 });
  });
  return { sql, locks, prefix };
}
