import { channel } from "node:diagnostics_channel";
import { invalidOption, LockError, StaleTokenError } from "../core/errors.js";
import { canonicalName, groupOf, type LockName } from "../core/names.js";
import { knownOptions } from "../core/options.js";
import {
  type AnyExecutor,
  type Dialect,
  executorOf,
  isSynchronous,
  type PrismaTransaction,
  type SyncTransaction,
  type Transaction,
} from "./executor.js";
import { sql } from "./sql.generated.js";

/**
 * Whose write it is: a lease, or what has come of it over the wire. Only an exclusive lease has a token;
 * of a lease of `all`, one part is given.
 */
export interface Fenced {
  /** The name of the lock. */
  readonly name: string;
  /** A `bigint`, or its decimal digits, as in the JSON of a lease. */
  readonly token: bigint | string;
  /** Asked first if it is there: a holder that knows that its lease is lost need not ask the resource. */
  assertHeld?(): void;
}

/** What the fence stands in front of. */
export interface FenceOptions {
  /** What is written to, if it has another name than the lock; each resource has a newest token of its own. */
  readonly resource?: LockName | undefined;
}

/** Which token wants to write to which resource, checked. */
export interface Pass {
  readonly lock: string;
  readonly resource: string;
  readonly token: bigint;
}

/** What is told on the channel `locktender:fence-refused` of `node:diagnostics_channel`. */
export interface FenceRefused {
  /** A write was refused, because its token is too old. */
  readonly type: "fence-refused";
  /** The name of the lock. */
  readonly name: string;
  /** The first part of the name: few enough to label metrics with. */
  readonly group: string;
  /** What was to be written to. */
  readonly resource: string;
  /** The token that was refused, in decimal digits. */
  readonly token: string;
  /** The newest token that the resource has seen, in decimal digits. */
  readonly highest: string;
}

const GREATEST = 2n ** 63n - 1n;
const DIGITS = /^(?:0|[1-9]\d{0,18})$/;
const refused = channel("locktender:fence-refused");

/** Throws if it is invalid, or if the lease is known to be lost: the token need not be asked then. */
export function passOf(fenced: Fenced, { resource }: FenceOptions = {}): Pass {
  if (typeof fenced !== "object" || fenced === null) {
    throw invalidToken("a fence needs a lease, or { name, token } of one.");
  }
  const lock = canonicalName(fenced.name);
  if (fenced.token === undefined) {
    throw invalidToken(
      `what was given for "${lock}" has no token. Readers and permits have none, since they shut no other holder out; of a multi-lock, give one of its parts.`,
      lock,
    );
  }
  const token = readToken(fenced.token, lock);
  fenced.assertHeld?.();
  return { lock, token, resource: resource === undefined ? lock : canonicalName(resource) };
}

export function readToken(token: unknown, lock?: string): bigint {
  const value = typeof token === "string" && DIGITS.test(token) ? BigInt(token) : token;
  if (typeof value === "bigint" && value >= 0n && value <= GREATEST) return value;
  const shown = typeof token === "string" ? JSON.stringify(token.slice(0, 40)) : String(token);
  throw invalidToken(
    `${shown} is not a token. Give the bigint of the lease, or its decimal digits; a number would have lost some of them.`,
    lock,
  );
}

export function invalidToken(message: string, lock?: string): LockError {
  return new LockError("invalid-token", message, { name: lock });
}

/** Throws if the resource has seen a newer token than this one. The same one may write again. */
export function admit({ lock, resource, token }: Pass, highest: bigint): void {
  if (highest <= token) return;
  if (refused.hasSubscribers) {
    const event: FenceRefused = {
      type: "fence-refused",
      name: lock,
      group: groupOf(lock),
      resource,
      token: String(token),
      highest: String(highest),
    };
    refused.publish(event);
  }
  throw new StaleTokenError(lock, { resource, token, highest });
}

const OPTIONS: ReadonlySet<string> = new Set(["resource", "dialect"]);
/** How databases, and libraries that wrap their errors, say that a table is missing. */
const NO_TABLE = ["42P01", "ER_NO_SUCH_TABLE", "1146"];

/**
 * Lets the transaction go on if no newer token has written to the resource, and keeps newer ones out until it
 * ends; otherwise throws `StaleTokenError`. Call it first, before anything is read that the write depends on.
 *
 * Where the database answers at once, so does this: then it works inside `db.transaction(() => { … })`.
 *
 * @example
 * ```ts
 * import { fence } from "locktender/fence";
 *
 * await locks.mutex("stock:lamp").run((lease) => {
 *   const write = db.transaction((pieces: number) => {
 *     fence(db, lease); // first
 *     db.prepare("UPDATE shelf SET pieces = ?").run(pieces);
 *   });
 *   write.immediate(6);
 * });
 * ```
 */
export function fence(tx: SyncTransaction, lease: Fenced, options?: FenceOptions): void;
/**
 * Lets the transaction go on if no newer token has written to the resource, and keeps newer ones out until it
 * ends; otherwise rejects with `StaleTokenError`. Call it first, before anything is read that the write depends on.
 *
 * @example
 * ```ts
 * import { fence } from "locktender/fence";
 * import pg from "pg";
 *
 * const pool = new pg.Pool();
 * await locks.mutex("stock:lamp").run(async (lease) => {
 *   const tx = await pool.connect();
 *   try {
 *     await tx.query("BEGIN");
 *     await fence(tx, lease); // first
 *     await tx.query("UPDATE shelf SET pieces = 6");
 *     await tx.query("COMMIT");
 *   } catch (error) {
 *     await tx.query("ROLLBACK");
 *     throw error;
 *   } finally {
 *     tx.release();
 *   }
 * });
 * ```
 */
export function fence(tx: Transaction, lease: Fenced, options?: FenceOptions): Promise<void>;
/** The same for the transaction of Prisma, which does not show its `dialect`. */
export function fence(
  tx: PrismaTransaction,
  lease: Fenced,
  options: FenceOptions & {
    /** The SQL that its database speaks. */
    readonly dialect: Dialect;
  },
): Promise<void>;
export function fence(
  tx: SyncTransaction | Transaction | PrismaTransaction,
  lease: Fenced,
  options: FenceOptions & { readonly dialect?: Dialect } = {},
): void | Promise<void> {
  // It may be a function, as with postgres.js and knex.
  if ((typeof tx !== "object" && typeof tx !== "function") || tx === null) {
    return Promise.reject(invalidOption("fence: the first argument is the transaction that writes."));
  }
  const enter = () => {
    knownOptions(options, OPTIONS, "fence");
    const executor = executorOf(tx, options.dialect);
    const pass = passOf(lease, options);
    const highest = raise(executor, pass.resource, pass.token);
    return typeof highest === "bigint" ? admit(pass, highest) : highest.then((seen) => admit(pass, seen));
  };
  return isSynchronous(tx) ? enter() : (async () => enter())();
}

/**
 * The statement that makes the fence's table, for a migration. It does nothing if the table is there.
 *
 * @example
 * ```ts
 * import { fenceTable } from "locktender/fence";
 *
 * db.exec(fenceTable("sqlite"));
 * ```
 */
export function fenceTable(dialect: Dialect): string {
  return withoutComments(sql[`table-${known(dialect)}`]);
}

/** The newest token of the resource, which is this one unless there is a newer. */
export function raise(executor: AnyExecutor, resource: string, token: bigint): bigint | Promise<bigint> {
  const name = Buffer.from(resource).toString("hex");
  // Hex and digits only: nothing to escape, and no client that changes a type or a character on the way.
  const [first = "", ...others] = withoutComments(sql[`admit-${known(executor.dialect)}`])
    .replaceAll("@name", name)
    .replaceAll("@token", token.toString())
    .split(/;\n+/)
    .filter((statement) => statement !== "");
  const explain = (error: unknown): never => {
    throw tableIsMissing(error) ? missingTable(executor.dialect, error) : error;
  };
  try {
    const answer = executor.query(first);
    if (!isPromise(answer)) return highestIn(answer);
    const last = others.reduce((before, next) => before.then(() => executor.query(next)), answer);
    return Promise.resolve(last).then(highestIn, explain);
  } catch (error) {
    return explain(error);
  }
}

const isPromise = <T>(answer: T | PromiseLike<T>): answer is PromiseLike<T> =>
  typeof (answer as Partial<PromiseLike<T>> | undefined)?.then === "function";

/** Whatever was answered: an executor is the user's own work. */
function highestIn(rows: unknown): bigint {
  const [row] = (Array.isArray(rows) ? rows : []) as readonly ({ readonly token?: unknown } | undefined)[];
  if (row?.token === undefined) {
    throw invalidOption("fence: the client gave no row with a token. Its query has to give rows as objects.");
  }
  // Bytes are what mysql2 gives for a text if it is told not to cast.
  return readToken(Buffer.isBuffer(row.token) ? row.token.toString() : row.token);
}

function known(dialect: Dialect): Dialect {
  if (Object.hasOwn(sql, `table-${dialect}`)) return dialect;
  throw invalidOption(
    `fence: the dialect is "postgres", "mysql" or "sqlite", not ${JSON.stringify(dialect)}.`,
  );
}

/** Query builders wrap errors, so what they wrap is looked at, too. The odd names are those of Prisma. */
function tableIsMissing(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { code, originalCode, message, cause, meta, driverAdapterError } = error as Record<string, unknown>;
  if (NO_TABLE.includes(String(code)) || NO_TABLE.includes(String(originalCode))) return true;
  if (/no such table: (\w+\.)?locktender_fence\b/.test(String(message))) return true;
  return [cause, meta, driverAdapterError].some(tableIsMissing);
}

function missingTable(dialect: Dialect, cause: unknown): LockError {
  const message = `the table locktender_fence is missing in this database. Make it in a migration, with the text of fenceTable("${dialect}").`;
  return new LockError("unsupported", message, { cause });
}

function withoutComments(source: string): string {
  return source.replace(/^--.*\n/gm, "");
}
