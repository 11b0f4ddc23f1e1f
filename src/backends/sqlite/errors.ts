import { asError, backendError, isLockError, LockError } from "../../core/errors.js";
import { plainText } from "../../core/plain-text.js";

interface Kind {
  /** SQLite's primary result code, and the beginning of its name. */
  readonly code: number;
  readonly name: string;
  /** What SQLite itself says of it. */
  readonly text: string;
  readonly busy?: true;
  /** Whether it may pass by itself. */
  readonly retryable: boolean;
  /** What it means to the operator of the program. */
  readonly story: string;
}

const KINDS: readonly Kind[] = [
  {
    code: 3,
    name: "PERM",
    text: "access permission denied",
    retryable: false,
    story: "this process may not open it.",
  },
  {
    code: 5,
    name: "BUSY",
    text: "database is locked",
    busy: true,
    retryable: true,
    story: "another process is writing.",
  },
  {
    code: 6,
    name: "LOCKED",
    text: "database table is locked",
    busy: true,
    retryable: true,
    story: "another process is writing.",
  },
  { code: 7, name: "NOMEM", text: "out of memory", retryable: true, story: "there is not enough memory." },
  {
    code: 8,
    name: "READONLY",
    text: "attempt to write a readonly database",
    retryable: false,
    story: "it cannot be written to. This process needs the right to write the file and its folder.",
  },
  {
    code: 10,
    name: "IOERR",
    text: "disk I/O error",
    retryable: true,
    story: "reading or writing it failed. Look at the disk.",
  },
  {
    code: 11,
    name: "CORRUPT",
    text: "database disk image is malformed",
    retryable: false,
    story: "it is damaged. Stop the processes that use it and delete it: there is nothing but locks in it.",
  },
  {
    code: 13,
    name: "FULL",
    text: "database or disk is full",
    retryable: true,
    story: "the disk is full. Make room; until then no lock can be taken or renewed.",
  },
  {
    code: 14,
    name: "CANTOPEN",
    text: "unable to open database file",
    retryable: false,
    story: "it cannot be opened. Its folder must exist, and this process must have the right to write there.",
  },
  {
    code: 15,
    name: "PROTOCOL",
    text: "locking protocol",
    busy: true,
    retryable: true,
    story: "too many processes open it at once.",
  },
  {
    code: 26,
    name: "NOTADB",
    text: "file is not a database",
    retryable: false,
    story: "it is not a SQLite database. Name another file, or move this one away.",
  },
];

/** What the file system says where SQLite would say that it cannot open the file. */
const UNREACHABLE = new Set(["ENOENT", "ENOTDIR", "EACCES"]);

/** The libraries tell it in different ways: by number, by name, or inside the message. */
function kindOf(error: unknown): Kind | undefined {
  if (!(error instanceof Error)) return undefined;
  const { rawCode, errcode, code } = error as { rawCode?: unknown; errcode?: unknown; code?: unknown };
  const number = rawCode ?? errcode;
  if (typeof number === "number") return KINDS.find((kind) => kind.code === (number & 0xff));
  if (typeof code === "string" && code.startsWith("SQLITE_")) {
    return KINDS.find(({ name }) => code.startsWith(`SQLITE_${name}`));
  }
  // Deno's node:sqlite gives the number in some errors, and in some only the text.
  if (code === "ERR_SQLITE_ERROR") return KINDS.find(({ text }) => error.message.startsWith(text));
  if (typeof code === "string" && UNREACHABLE.has(code)) return KINDS.find(({ name }) => name === "CANTOPEN");
  const [, opening] = /Unable to open connection to local database .*: (\d+)/s.exec(error.message) ?? [];
  return opening === undefined ? undefined : KINDS.find((kind) => kind.code === (Number(opening) & 0xff));
}

/** Another process is writing: worth another try in a moment. */
export function isBusy(error: unknown): boolean {
  return kindOf(error)?.busy === true;
}

export function busyError(name: string, waitedMs: number): LockError {
  return backendError(
    `${name} was busy for ${Math.round(waitedMs)} ms. Something holds a long transaction on it, or this machine is overloaded.`,
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
export function explain(error: unknown, name: string): LockError {
  if (isLockError(error)) return error;
  const kind = kindOf(error);
  const { message } = asError(error);
  return backendError(`${name} failed: ${kind?.story ?? plainText(message)}`, {
    retryable: kind?.retryable ?? false,
    cause: error,
  });
}
