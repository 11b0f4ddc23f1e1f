import { statSync } from "node:fs";
import type { MachineClock } from "./clock.js";
import { isBusy } from "./errors.js";
import { prepareStatements, type SqliteDatabase, type Statements } from "./statements.js";

/** One open connection. Its methods are synchronous: nothing else of this process comes in between. */
export class Session {
  readonly boot: string;
  /** Not to be used again. */
  broken = false;
  readonly #db: SqliteDatabase;
  readonly #statements: Statements;
  readonly #clock: MachineClock;
  readonly #identity: string | undefined;

  constructor(
    db: SqliteDatabase,
    clock: MachineClock,
    /** Where the file lies; `undefined` if it is in memory. */
    readonly file: string | undefined,
  ) {
    this.boot = clock.boot;
    this.#db = db;
    this.#clock = clock;
    this.#statements = prepareStatements(db);
    this.#identity = this.#look();
  }

  get inTransaction(): boolean {
    return this.#db.inTransaction;
  }

  close(): void {
    this.#db.close();
  }

  /** One atomic step. The time is read inside it, so that times never go back from one step to the next. */
  transact<T>(work: (statements: Statements, nowUs: number) => T): T {
    // Not prepared: libsql would leave the statement active if the file is busy (see statements.ts).
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const result = work(this.#statements, this.#clock.nowUs());
      this.#db.exec("COMMIT");
      return result;
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  /** Looks without changing anything: others may write meanwhile. */
  read<T>(look: (statements: Statements, nowUs: number) => T): T {
    try {
      return look(this.#statements, this.#clock.nowUs());
    } catch (error) {
      // The statement may have stayed active and would hold on to what it saw: better to open anew.
      if (isBusy(error)) this.broken = true;
      throw error;
    }
  }

  #rollBack(): void {
    try {
      // Some failures have rolled back already.
      if (this.#db.inTransaction) this.#db.exec("ROLLBACK");
    } catch {
      // The first error is the one to tell; a connection in this state is not used again.
      this.broken = true;
    }
  }

  /** Whether the file that we have open is still the one that others find: a deleted one locks nobody out. */
  isCurrent(): boolean {
    return this.#look() === this.#identity;
  }

  #look(): string | undefined {
    if (this.file === undefined) return undefined;
    const found = statSync(this.file, { bigint: true, throwIfNoEntry: false });
    return found === undefined ? undefined : `${found.dev}:${found.ino}`;
  }
}
