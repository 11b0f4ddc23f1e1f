/** What we use of a statement of `libsql` or `better-sqlite3`. */
export interface SqliteStatement {
  run(...params: unknown[]): { readonly changes: number };
  get(...params: unknown[]): unknown;
  all(...params: unknown[]): unknown[];
  raw(toggle?: boolean): unknown;
  safeIntegers(toggle?: boolean): unknown;
}

/** What we use of a database of `libsql` or `better-sqlite3`. */
export interface SqliteDatabase {
  /** Until it is closed. */
  readonly open: boolean;
  readonly inTransaction: boolean;
  prepare(source: string): SqliteStatement;
  exec(source: string): unknown;
  close(): unknown;
}

/** What we use of a statement of `node:sqlite`. */
export interface NodeSqliteStatement {
  run(...params: unknown[]): { readonly changes: number | bigint };
  get(...params: unknown[]): unknown;
  all(...params: unknown[]): unknown[];
  setReturnArrays(enabled: boolean): void;
  setReadBigInts(enabled: boolean): void;
}

/** What we use of a database of `node:sqlite`. */
export interface NodeSqliteDatabase {
  readonly isOpen: boolean;
  readonly isTransaction: boolean;
  prepare(source: string): NodeSqliteStatement;
  exec(source: string): void;
  close(): void;
}

/** Of a database that is closed, libsql must not be asked: it would end the process. */
export function isInTransaction(db: Pick<SqliteDatabase, "open" | "inTransaction">): boolean {
  return db.open && db.inTransaction;
}
