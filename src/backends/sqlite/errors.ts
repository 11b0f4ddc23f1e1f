import { asError, backendError, isLockError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";

/** SQLite's primary result codes: the number, the beginning of the name, and what SQLite itself says. */
const CODES = [
  [3, "PERM", "access permission denied"],
  [5, "BUSY", "database is locked"],
  [6, "LOCKED", "database table is locked"],
  [7, "NOMEM", "out of memory"],
  [8, "READONLY", "attempt to write a readonly database"],
  [10, "IOERR", "disk I/O error"],
  [11, "CORRUPT", "database disk image is malformed"],
  [13, "FULL", "database or disk is full"],
  [14, "CANTOPEN", "unable to open database file"],
  [15, "PROTOCOL", "locking protocol"],
  [26, "NOTADB", "file is not a database"],
] as const;

type CodeName = (typeof CODES)[number][1];

/** What each of them means to the operator of the program. */
const STORIES: Readonly<Record<CodeName, string>> = {
  PERM: "this process may not open it.",
  BUSY: "another process is writing.",
  LOCKED: "another process is writing.",
  NOMEM: "there is not enough memory.",
  READONLY: "it cannot be written to. This process needs the right to write the file and its folder.",
  IOERR: "reading or writing it failed. Look at the disk.",
  CORRUPT: "it is damaged. Stop the processes that use it and delete it: there is nothing but locks in it.",
  FULL: "the disk is full. Make room; until then no lock can be taken or renewed.",
  CANTOPEN:
    "it cannot be opened. Its folder must exist, and this process must have the right to write there.",
  PROTOCOL: "too many processes open it at once.",
  NOTADB: "it is not a SQLite database. Name another file, or move this one away.",
};

const BUSY: ReadonlySet<CodeName | undefined> = new Set(["BUSY", "LOCKED", "PROTOCOL"]);

/** What may pass by itself. */
const PASSING: ReadonlySet<CodeName | undefined> = new Set([...BUSY, "NOMEM", "IOERR", "FULL"]);

/** What the file system says where SQLite would say that it cannot open the file. */
const UNREACHABLE = new Set(["ENOENT", "ENOTDIR", "EACCES"]);

/** The libraries tell it in different ways: by number, by name, or inside the message. */
function codeNameOf(error: unknown): CodeName | undefined {
  if (!(error instanceof Error)) return undefined;
  const byNumber = (given: number) => CODES.find(([number]) => number === (given & 0xff))?.[1];
  const { rawCode, errcode, code } = error as { rawCode?: unknown; errcode?: unknown; code?: unknown };
  const number = rawCode ?? errcode;
  if (typeof number === "number") return byNumber(number);
  if (typeof code === "string" && code.startsWith("SQLITE_")) {
    return CODES.find(([, name]) => code.startsWith(`SQLITE_${name}`))?.[1];
  }
  // Deno's node:sqlite gives the number in some errors, and in some only the text.
  if (code === "ERR_SQLITE_ERROR") return CODES.find(([, , text]) => error.message.startsWith(text))?.[1];
  if (typeof code === "string" && UNREACHABLE.has(code)) return "CANTOPEN";
  const [, opening] = /Unable to open connection to local database .*: (\d+)/s.exec(error.message) ?? [];
  return opening === undefined ? undefined : byNumber(Number(opening));
}

/** Another process is writing: worth another try in a moment. */
export function isBusy(error: unknown): boolean {
  return BUSY.has(codeNameOf(error));
}

export function busyError(file: string, waitedMs: number): LockError {
  return backendError(
    `${file} was busy for ${Math.round(waitedMs)} ms. Something holds a long transaction on it, or this machine is overloaded.`,
    { retryable: true },
  );
}

export function closedError(): LockError {
  return new LockError("closed", "this lock file is closed: nothing can be asked of it any more.");
}

export function unsupported(message: string, cause?: unknown): LockError {
  return new LockError("unsupported", message, cause === undefined ? {} : { cause });
}

/** Another machine, or a container with a boot id of its own, has taken the file over. */
export function otherBoot(): LockError {
  return unsupported(
    "the lock file is used under another boot id as well: by another machine, or by a container that has a boot id of its own. Their clocks cannot be compared; give each its own file, or use an engine made for several machines.",
  );
}

/** Whatever the library threw, as an error of ours. Its message never holds the values that were bound. */
export function explain(error: unknown, file: string): LockError {
  if (isLockError(error)) return error;
  const name = codeNameOf(error);
  const { message } = asError(error);
  return backendError(`${file} failed: ${name === undefined ? plainText(message) : STORIES[name]}`, {
    retryable: PASSING.has(name),
    cause: error,
  });
}
