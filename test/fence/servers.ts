import { randomBytes } from "node:crypto";
import mysql from "mysql2/promise";
import pg from "pg";
import { afterAll } from "vitest";
import { shared } from "../servers/shared.js";

export type ServerDialect = "postgres" | "mysql";

async function ask(dialect: ServerDialect, url: string, sql: string): Promise<void> {
  if (dialect === "mysql") {
    const connection = await mysql.createConnection(url);
    await connection.query(sql);
    await connection.end();
    return;
  }
  const client = new pg.Client(url);
  await client.connect();
  await client.query(sql);
  await client.end();
}

/** A database of the test file's own, because the fence's table has but one name. Gone when the file is done. */
export async function freshDatabase(dialect: ServerDialect): Promise<string> {
  const { url } = await shared(dialect === "mysql" ? "mariadb" : "postgres");
  const name = `fence_${randomBytes(6).toString("hex")}`;
  await ask(dialect, url, `CREATE DATABASE ${name}`);
  // PostgreSQL waits for connections that are about to end.
  afterAll(() => ask(dialect, url, `DROP DATABASE ${name}`));
  const own = new URL(url);
  own.pathname = `/${name}`;
  return own.href;
}

export async function freshDatabaseWith(dialect: ServerDialect, ...statements: string[]): Promise<string> {
  const url = await freshDatabase(dialect);
  for (const statement of statements) await ask(dialect, url, statement);
  return url;
}
