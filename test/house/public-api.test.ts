import { describe, expect, test } from "vitest";
import { type Changed, type PublicName, publicNames } from "../support/public-api.js";

/** Shapes of what callers bring along: the library that makes it says what the members are. */
const OF_OTHERS = [
  ...["IoredisLike", "NodeRedisLike", "PgClientLike", "PgPooledClient", "PgPoolLike", "PgQuery", "PgSession"],
  ...["PostgresJsSql", "MysqlConnectionLike", "MysqlPoolLike", "MysqlPromisePool", "MysqlQuery"],
  ...["NodeSqliteDatabase", "NodeSqliteStatement", "SqliteDatabase", "SqliteStatement"],
  ...["PgTransaction", "PostgresJsTransaction", "MysqlPromiseTransaction", "MysqlCallbackTransaction"],
  ...["SqliteTransaction", "KyselyTransaction", "DrizzleTransaction", "DrizzleSqliteTransaction"],
  ...["DrizzleSyncTransaction", "PrismaTransaction", "ScriptOptions"],
];
/** Its members are the schemes of URLs. */
const BY_SCHEME = "EngineOptions";
/** Called by core, and made by an engine. */
const BY_ENGINES = ["Backend", "CellStore"];
const MAIN_OPTIONS = [
  ...["MutexOptions.fair", "MutexOptions.sticky", "ConnectOptions.engine"],
  ...["owner", "require", "onEvent", "closeOnSignals"].map((option) => `LocksOptions.${option}`),
];

const ownerOf = ({ name }: PublicName): string => name.split(".")[0] as string;

/** It may change in any release, and its readers read the source: fields of its records need no comment. */
const isUnstable = (found: PublicName): boolean =>
  found.subpath === "./engine-kit" ||
  (found.subpath === "./testing" && !/^(createTestLocks|startFaultProxy|Test|Fault|Held)/.test(found.name));

function needsComment(found: PublicName): boolean {
  if (found.kind !== "field" && found.kind !== "method") return true;
  if (OF_OTHERS.includes(ownerOf(found)) || ownerOf(found) === BY_SCHEME) return false;
  if (BY_ENGINES.includes(ownerOf(found))) return found.name.split(".").length === 2;
  return found.kind === "method" || !isUnstable(found);
}

function needsExample(found: PublicName): boolean {
  if (isUnstable(found)) return false;
  if (found.kind === "function") return true;
  if (ownerOf(found) === "AcquireOptions" || MAIN_OPTIONS.includes(found.name)) return found.kind === "field";
  const isCalled = found.kind === "method" && found.subpath === "." && !BY_ENGINES.includes(ownerOf(found));
  return isCalled && !/\.(toJSON|\[.*)$/.test(found.name);
}

/** What is lacking, one line each. */
function gapsIn(names: readonly PublicName[]): string[] {
  return names.flatMap((found) => {
    const { subpath, name, comment, examples, choices } = found;
    const at = `${subpath} ${name}`;
    const unsaid = choices.filter((choice) => !comment.includes(`\`${choice}\``));
    return [
      ...(needsComment(found) && comment.trim() === "" ? [`${at} has no comment`] : []),
      ...(needsExample(found) && examples.length === 0 ? [`${at} has no @example`] : []),
      ...(needsComment(found) && comment !== ""
        ? unsaid.map((choice) => `${at} does not say what ${choice} means`)
        : []),
    ];
  });
}

const gapsAfter = (changed: Changed): string[] => gapsIn(publicNames(changed));

/** The text, which has to be there once. */
const without = (text: string | RegExp) => (source: string) => {
  expect(source.split(text).length, String(text)).toBe(2);
  return source.replace(text, "");
};

describe("what an editor shows of the public names", () => {
  const names = publicNames();

  test("each has a comment, and each function and main option an example", () => {
    expect(names.length).toBeGreaterThan(500);
    expect(gapsIn(names)).toEqual([]);
  });

  test("what is left out is there", () => {
    const owners = new Set(names.map(ownerOf));
    const listed = [...OF_OTHERS, BY_SCHEME, ...BY_ENGINES];
    expect(listed.filter((name) => !owners.has(name))).toEqual([]);
    expect(MAIN_OPTIONS.filter((option) => !names.some(({ name }) => name === option))).toEqual([]);
  });

  test.each<[string, string, string | RegExp, string[]]>([
    [
      "an option's comment",
      "dist/locks/close.d.ts",
      '/** How long running callbacks may go on; `"20s"` if not given. */',
      [". CloseOptions.drain has no comment"],
    ],
    [
      "the comment of one overload",
      "dist/core/errors.d.ts",
      "/** Recognises our errors of this code also when they come from another copy of this package, and narrows the type. */",
      [". isLockError has no comment"],
    ],
    [
      "the comment of an event",
      "dist/core/events.d.ts",
      "/** A lease was released. */",
      [". LockEvent.type has no comment"],
    ],
    [
      "an error code from the list",
      "dist/core/errors.d.ts",
      " * - `queue-full`: `maxWaiters` are waiting already\n",
      [". LockErrorCode does not say what queue-full means"],
    ],
    [
      "the comment of an option whose type is not exported",
      "dist/fence/http.d.ts",
      "/** How long a resource without writes is remembered, 30 days unless said otherwise. */",
      ["./fence StoreOptions.retention has no comment"],
    ],
    [
      "an example",
      "dist/locks/locks.d.ts",
      /@example\n.*```ts\n.*locks\.semaphore\([\s\S]*?```/,
      [". Locks.semaphore has no @example"],
    ],
  ])("without %s, that is noticed", (_, file, text, gaps) => {
    expect(gapsAfter({ [file]: without(text) })).toEqual(gaps);
  });
});
