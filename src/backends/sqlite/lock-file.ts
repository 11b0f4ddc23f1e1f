import { dirname } from "node:path";
import { nowMs } from "../../core/clock.js";
import { SingleFlight } from "../../core/concurrency.js";
import { backendError } from "../../core/errors.js";
import { nextTurn, startTimer, yieldTurn } from "../../core/timer.js";
import { MachineClock } from "./clock.js";
import { busyError, closedError, explain, isBusy } from "./errors.js";
import { createPrivateFolder, identityOf, refuseNetwork } from "./files.js";
import { isInTransaction, loadLibrary, type SqliteDatabase, type SqliteLibrary } from "./library.js";
import { fileOf, setUp } from "./open.js";
import { Session } from "./session.js";

const SPINS = 3;
const LONGEST_PAUSE_MS = 20;

export interface LockFileOptions {
  /** What errors call it. */
  readonly name: string;
  readonly source: FileSource | { readonly database: SqliteDatabase };
  /** How long an operation tries while others write. */
  readonly busyMs: number;
}

export interface FileSource {
  readonly file: string;
  /** The file is our own default, and so is its folder. */
  readonly createFolder: boolean;
  /** Which library opens it, if the caller wants a certain one. */
  readonly library?: SqliteLibrary | undefined;
}

/** The part that has to know which file is in use. */
export interface FileListener {
  opened(): void;
  lost(): void;
}

/** The database, opened on first use; an operation is tried again while other processes write. */
export class LockFile {
  readonly #options: LockFileOptions;
  readonly #listener: () => FileListener | undefined;
  #session: Session | undefined;
  #library: SqliteLibrary | undefined;
  readonly #opening = new SingleFlight<Session>();
  /** Set while an operation waits for the file: operations that come later wait behind it. */
  #turn: Promise<"free" | "busy"> | undefined;
  #closed = false;

  constructor(options: LockFileOptions, listener: () => FileListener | undefined) {
    this.#options = options;
    this.#listener = listener;
  }

  /** Runs a synchronous step as soon as the file lets us, within a bound. */
  async use<T>(step: (session: Session) => T): Promise<T> {
    const yielded = yieldTurn();
    if (yielded !== undefined) await yielded;
    const startMs = nowMs();
    while (this.#turn !== undefined) {
      const found = await this.#turn;
      // The operation ahead gave up: this one would fare no better.
      if (found === "busy" && this.#isLate(startMs)) throw this.#tooBusy(startMs);
    }
    try {
      return step(this.#ready() ?? (await this.#opened()));
    } catch (error) {
      if (!isBusy(error)) throw explain(error, this.#options.name);
    }
    return this.#retry(step, startMs);
  }

  /** Which library has opened the file; `undefined` before the first use. */
  get library(): SqliteLibrary | undefined {
    return this.#library;
  }

  /** The write-ahead log, which changes when a process writes; `undefined` if there is none. */
  get log(): string | undefined {
    const file = this.#session?.file;
    return file === undefined ? undefined : `${file}-wal`;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    // An opening that is under way finds the file closed and tidies up after itself.
    await this.#opening.underWay?.catch(() => undefined);
    this.#discard();
  }

  async #retry<T>(step: (session: Session) => T, startMs: number): Promise<T> {
    while (this.#turn !== undefined) await this.#turn;
    let found: "free" | "busy" = "free";
    let done = (_found: typeof found) => {};
    this.#turn = new Promise((resolve) => {
      done = resolve;
    });
    try {
      for (let attempt = 0; ; attempt++) {
        await pause(attempt);
        try {
          return step(this.#ready() ?? (await this.#opened()));
        } catch (error) {
          if (!isBusy(error)) throw explain(error, this.#options.name);
          if (!this.#isLate(startMs)) continue;
          found = "busy";
          // Should it be our own connection that is stuck, then a new one is not.
          if (this.#session !== undefined) this.#session.broken = true;
          throw this.#tooBusy(startMs);
        }
      }
    } finally {
      this.#turn = undefined;
      done(found);
    }
  }

  #ready(): Session | undefined {
    if (this.#closed) throw closedError();
    const session = this.#session;
    if (session === undefined) return undefined;
    if (this.#brought) assertNoTransaction(session.inTransaction);
    // The caller's connection is not ours to open anew, so it is used even if it is broken.
    if ((!session.broken || this.#brought) && session.isCurrent()) return session;
    if (this.#brought) throw this.#replaced();
    this.#discard();
    this.#listener()?.lost();
    return undefined;
  }

  get #brought(): boolean {
    return "database" in this.#options.source;
  }

  async #opened(): Promise<Session> {
    const session = await this.#open();
    if (this.#closed) throw closedError();
    return session;
  }

  #open(): Promise<Session> {
    return this.#opening.run(() => this.#openNow());
  }

  async #openNow(): Promise<Session> {
    const { source } = this.#options;
    if ("file" in source && source.createFolder) await createPrivateFolder(dirname(source.file));
    const file = "file" in source ? source.file : fileOf(source.database);
    if (file !== undefined) await refuseNetwork(file);
    const identity = identityOf(file);
    const db = "file" in source ? await this.#openFile(source) : source.database;
    try {
      if (this.#closed) throw closedError();
      assertNoTransaction(isInTransaction(db));
      const clock = new MachineClock();
      setUp(db, clock);
      const session = new Session(db, clock, file, identity);
      // What we have open is known only if it was there before and after: a file that was just made, or deleted
      // or replaced meanwhile, is opened once more.
      if (file !== undefined && (identity === undefined || !session.isCurrent())) {
        throw this.#brought ? this.#replaced() : tryAgain("not the same file");
      }
      this.#session = session;
      this.#listener()?.opened();
      return session;
    } catch (error) {
      if (!this.#brought) db.close();
      throw error;
    }
  }

  async #openFile({ file, library }: FileSource): Promise<SqliteDatabase> {
    const loaded = await loadLibrary(library);
    this.#library = loaded.library;
    return loaded.open(file);
  }

  #discard(): void {
    const session = this.#session;
    this.#session = undefined;
    if (session === undefined || this.#brought) return;
    try {
      session.close();
    } catch {
      // It is not used again; the system closes it with the process.
    }
  }

  #replaced() {
    const message = `${this.#options.name} was deleted or replaced. Open it anew.`;
    return backendError(message, { retryable: false });
  }

  #isLate(startMs: number): boolean {
    return nowMs() - startMs >= this.#options.busyMs;
  }

  #tooBusy(startMs: number) {
    return busyError(this.#options.name, nowMs() - startMs);
  }
}

/** A few times at once, because a commit takes microseconds; then with growing, uneven pauses. */
function pause(attempt: number): Promise<void> {
  if (attempt < SPINS) return nextTurn();
  const longestMs = Math.min(2 ** (attempt - SPINS + 1), LONGEST_PAUSE_MS);
  return new Promise((resolve) => startTimer(resolve, 1 + Math.floor(Math.random() * longestMs)));
}

/** Our statements would become part of the caller's transaction, and be undone with it. */
function assertNoTransaction(inTransaction: boolean): void {
  if (inTransaction) throw tryAgain("in a transaction");
}

function tryAgain(message: string): Error {
  return Object.assign(new Error(message), { code: "SQLITE_BUSY" });
}
