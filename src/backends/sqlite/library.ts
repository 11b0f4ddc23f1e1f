import { hasMethods, partOf } from "../../core/errors.js";
import { type LowestVersions, loadNative } from "../../engine-kit/client-library.js";
import { unsupported } from "./errors.js";

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

export const LIBRARIES = ["node:sqlite", "libsql", "better-sqlite3"] as const;
/** What can open the file: `node:sqlite` is part of Node.js 24; `libsql` and `better-sqlite3` are installed. */
export type SqliteLibrary = (typeof LIBRARIES)[number];

/** It blocks the event loop, so it only bridges the moment that another commit takes. */
export const BUSY_TIMEOUT_MS = 2;
const OPTIONS = { timeout: BUSY_TIMEOUT_MS };

/** A library, and how it opens a file. */
export interface Loaded {
  readonly library: SqliteLibrary;
  open(file: string): SqliteDatabase;
}

interface NodeModule {
  readonly DatabaseSync: new (file: string, options: typeof OPTIONS) => NodeSqliteDatabase;
}

interface NativeModule {
  readonly default: new (file: string, options: typeof OPTIONS) => SqliteDatabase;
}

/** Node.js has all that is needed from 24 on, and prints a warning about it until 24.15 and 25.7. */
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
const HAS_SQLITE = major >= 24;
const IS_SILENT = major > 25 || (major === 25 && minor >= 7) || (major === 24 && minor >= 15);

/** What Node.js brings along comes first, unless it would print a warning in a program that has another one. */
function inOrder(): readonly SqliteLibrary[] {
  if (IS_SILENT) return LIBRARIES;
  return HAS_SQLITE ? ["libsql", "better-sqlite3", "node:sqlite"] : ["libsql", "better-sqlite3"];
}

/** The library that is asked for, or the first that is there. */
export async function loadLibrary(wanted: SqliteLibrary | undefined): Promise<Loaded> {
  for (const library of wanted === undefined ? inOrder() : [wanted]) {
    const open = library === "node:sqlite" ? nodeSqlite() : await native(library);
    if (open !== undefined) return { library, open };
  }
  throw unsupported(
    wanted === "libsql" || wanted === "better-sqlite3"
      ? `the package "${wanted}" is not installed: npm install ${wanted}.`
      : "the embedded engine needs SQLite. Use Node.js 24 or later, which has it, or install a library: npm install libsql, or npm install better-sqlite3.",
  );
}

/** Asked for in this way, it is nothing that a bundler could look for. */
function nodeSqlite(): Loaded["open"] | undefined {
  if (!HAS_SQLITE) return undefined;
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite") as NodeModule;
  return (file) => adaptedNodeSqlite(new DatabaseSync(file, OPTIONS));
}

type NativeLibrary = Exclude<SqliteLibrary, "node:sqlite">;

/** libsql 0.5.1 ended the process in the tests. */
export const LOWEST_VERSIONS: LowestVersions<NativeLibrary> = {
  libsql: "0.5.29",
  "better-sqlite3": "11.0.0",
};

async function native(library: NativeLibrary): Promise<Loaded["open"] | undefined> {
  const module = (await loadNative(library, LOWEST_VERSIONS)) as NativeModule | undefined;
  return module && ((file) => new module.default(file, OPTIONS));
}

/** Before Node.js 24 it does not say whether it is in a transaction, and cannot be used. */
export function isNodeSqlite(database: unknown): database is NodeSqliteDatabase {
  return hasMethods(database, ["prepare", "exec"]) && typeof partOf(database, "isTransaction") === "boolean";
}

/** A database of `node:sqlite`, used as the other libraries are. */
export function adaptedNodeSqlite(db: NodeSqliteDatabase): SqliteDatabase {
  return {
    get open() {
      return db.isOpen;
    },
    get inTransaction() {
      return db.isTransaction;
    },
    prepare: (source) => adaptedStatement(db.prepare(source)),
    exec: (source) => db.exec(source),
    close: () => db.close(),
  };
}

function adaptedStatement(statement: NodeSqliteStatement): SqliteStatement {
  return {
    run: (...params) => ({ changes: Number(statement.run(...params).changes) }),
    get: (...params) => statement.get(...params),
    all: (...params) => statement.all(...params),
    raw: (toggle = true) => statement.setReturnArrays(toggle),
    safeIntegers: (toggle = true) => statement.setReadBigInts(toggle),
  };
}
