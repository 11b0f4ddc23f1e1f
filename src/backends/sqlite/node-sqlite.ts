import { hasMethods, partOf } from "../../core/shape.js";
import type { NodeSqliteDatabase, NodeSqliteStatement, SqliteDatabase, SqliteStatement } from "./database.js";

/** Before Node.js 24 it does not say whether it is in a transaction, and cannot be used. */
export function isNodeSqlite(database: unknown): database is NodeSqliteDatabase {
  return hasMethods(database, ["prepare", "exec"]) && typeof partOf(database, "isTransaction") === "boolean";
}

/** A database of `node:sqlite`, used as the other libraries are. */
export class NodeSqlite implements SqliteDatabase {
  readonly #db: NodeSqliteDatabase;

  constructor(db: NodeSqliteDatabase) {
    this.#db = db;
  }

  get open(): boolean {
    return this.#db.isOpen;
  }

  get inTransaction(): boolean {
    return this.#db.isTransaction;
  }

  prepare(source: string): SqliteStatement {
    return new NodeStatement(this.#db.prepare(source));
  }

  exec(source: string): void {
    this.#db.exec(source);
  }

  close(): void {
    this.#db.close();
  }
}

class NodeStatement implements SqliteStatement {
  readonly #statement: NodeSqliteStatement;

  constructor(statement: NodeSqliteStatement) {
    this.#statement = statement;
  }

  run(...params: unknown[]): { readonly changes: number } {
    return { changes: Number(this.#statement.run(...params).changes) };
  }

  get(...params: unknown[]): unknown {
    return this.#statement.get(...params);
  }

  all(...params: unknown[]): unknown[] {
    return this.#statement.all(...params);
  }

  raw(toggle = true): void {
    this.#statement.setReturnArrays(toggle);
  }

  safeIntegers(toggle = true): void {
    this.#statement.setReadBigInts(toggle);
  }
}
