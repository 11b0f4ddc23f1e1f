import { backendError, isLockError, LockError } from "../../core/errors.js";

/** SQLite's numbers for what can go wrong while a file is opened, where `libsql` tells no more. */
const OPEN_CODES: Readonly<Record<string, string>> = {
  "5": "SQLITE_BUSY",
  "8": "SQLITE_READONLY",
  "10": "SQLITE_IOERR",
  "13": "SQLITE_FULL",
  "14": "SQLITE_CANTOPEN",
  "26": "SQLITE_NOTADB",
};

/** What each failure means to whoever runs the program, and whether it may pass by itself. */
const STORIES: readonly (readonly [prefix: string, retryable: boolean, story: string])[] = [
  ["SQLITE_FULL", true, "the disk is full. Make room; until then no lock can be taken or renewed"],
  ["SQLITE_IOERR", true, "reading or writing it failed. Look at the disk"],
  ["SQLITE_NOMEM", true, "there is not enough memory"],
  [
    "SQLITE_READONLY",
    false,
    "it cannot be written to. Give this process the right to write it and its folder",
  ],
  ["SQLITE_CANTOPEN", false, "it cannot be opened. Does its folder exist, and may this process write there?"],
  ["SQLITE_PERM", false, "this process may not open it"],
  ["SQLITE_NOTADB", false, "it is not a SQLite database. Name another file, or move this one away"],
  [
    "SQLITE_CORRUPT",
    false,
    "it is damaged. Stop the processes that use it and delete it: it holds only locks",
  ],
];

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "";
  if ("code" in error && typeof error.code === "string" && error.code !== "") return error.code;
  const opened = /Unable to open connection to local database .*: (\d+)/s.exec(error.message);
  return OPEN_CODES[opened?.[1] ?? ""] ?? "";
}

/** Somebody else is writing: worth another try in a moment. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(codeOf(error));
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
  const code = codeOf(error);
  const known = STORIES.find(([prefix]) => code.startsWith(prefix));
  const message = error instanceof Error ? error.message : String(error);
  const [, retryable, story] = known ?? ["", false, message];
  return backendError(`${name} failed: ${story}.`, { retryable, cause: error });
}
