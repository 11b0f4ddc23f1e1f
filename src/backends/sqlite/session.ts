import type { Row, SqlValue } from "../sql/driver.js";
import type { Routine } from "../sql/routines.js";
import { type MachineClock, wallUs } from "./clock.js";
import { isBusy, otherBoot } from "./errors.js";
import { identityOf } from "./files.js";
import { isInTransaction, type SqliteDatabase, type SqliteStatement } from "./library.js";
import { Program } from "./program.js";

/** One open connection. Its methods are synchronous: nothing else of this process comes in between. */
export class Session {
  /** Not to be used again. */
  broken = false;
  readonly #db: SqliteDatabase;
  readonly #programs = new Map<Routine, Program>();
  readonly #boot: SqliteStatement;
  readonly #clock: MachineClock;
  readonly #identity: string | undefined;

  constructor(
    db: SqliteDatabase,
    clock: MachineClock,
    /** Where the file lies; `undefined` if it is in memory. */
    readonly file: string | undefined,
    /** Which file that is. */
    identity: string | undefined,
  ) {
    this.#db = db;
    this.#clock = clock;
    this.#boot = db.prepare("SELECT boot FROM machine");
    this.#identity = identity;
  }

  get inTransaction(): boolean {
    return isInTransaction(this.#db);
  }

  close(): void {
    this.#db.close();
  }

  /** One atomic step. What is answered by a query changes nothing, and others may write meanwhile. */
  call(routine: Routine, values: readonly SqlValue[]): readonly Row[] {
    return routine.query === undefined ? this.#transact(routine, values) : this.#read(routine, values);
  }

  #transact(routine: Routine, values: readonly SqlValue[]): readonly Row[] {
    // Not prepared: libsql would leave the statement active if the file is busy (see program.ts).
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const { boot } = this.#boot.get() as { readonly boot: string };
      if (boot !== this.#clock.boot) throw otherBoot();
      const rows = this.#run(routine, values);
      this.#db.exec("COMMIT");
      return rows;
    } catch (error) {
      this.#rollBack();
      throw error;
    }
  }

  #read(routine: Routine, values: readonly SqlValue[]): readonly Row[] {
    try {
      return this.#run(routine, values);
    } catch (error) {
      // The statement may have stayed active and would hold on to what it saw: better to open anew.
      if (isBusy(error)) this.broken = true;
      throw error;
    }
  }

  /** The time is read inside the transaction, so that times never go back from one step to the next. */
  #run(routine: Routine, values: readonly SqlValue[]): readonly Row[] {
    let program = this.#programs.get(routine);
    if (program === undefined) {
      program = new Program(this.#db, routine);
      this.#programs.set(routine, program);
    }
    return program.run(values, this.#clock.nowUs(), wallUs());
  }

  #rollBack(): void {
    try {
      // Some failures have rolled back already.
      if (isInTransaction(this.#db)) this.#db.exec("ROLLBACK");
    } catch {
      // The first error is the one to tell; a connection in this state is not used again.
      this.broken = true;
    }
  }

  /** Whether the file that we have open is still the one that others find: a deleted one excludes no other process. */
  isCurrent(): boolean {
    return identityOf(this.file) === this.#identity;
  }
}
