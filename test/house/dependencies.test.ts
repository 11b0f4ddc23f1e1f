import { readdirSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { ENGINE_NAMES, entryOf, loaderOf } from "../engines.js";

const SRC = fileURLToPath(new URL("../../src/", import.meta.url));
const FILES = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .map((file) => file.replaceAll("\\", "/"))
  .filter((file) => file.endsWith(".ts"))
  .sort();

/** The libraries that an engine may load. They are optional peers, so no other file may need them. */
const CLIENTS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  ENGINE_NAMES.map((name) => [loaderOf(name), entryOf(name).libraries]),
);

/** Their imports are never written out: bundlers would follow them to files that they cannot read. */
const NATIVE = ["libsql", "better-sqlite3"];

/** Folders that several engines share: what talks to the same kind of server, and what the databases have in common. */
const SHARED_BY: Readonly<Record<string, string | undefined>> = Object.fromEntries(
  ENGINE_NAMES.map((name) => [`backends/${name}`, entryOf(name).shares]),
);

const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: ["core"],
  "engine-kit": ["core", "engine-kit"],
  "clients/redis": ["core", "engine-kit", "clients/redis"],
  locks: ["core", "locks"],
  fence: ["core", "fence"],
  testing: ["core", "locks", "testing", "backends/memory"],
  "core.ts": ["core", "locks"],
  "connect.ts": ["core", "engine-kit", "locks", ...ENGINE_NAMES.map((engine) => `backends/${engine}`)],
  "index.ts": ["core.ts", "connect.ts"],
};

/** Files that may import what they compute, and why. */
const MAY_COMPUTE: Readonly<Record<string, string>> = {
  "engine-kit/client-library.ts": "bundlers must not follow the import of a native library",
  "testing/history-worker.ts": "the harness names the module that opens its engine in a child process",
  "testing/worker.ts": "the same",
};

interface Import {
  /** `undefined` if it is computed, and so cannot be read here. */
  readonly specifier: string | undefined;
  readonly dynamic: boolean;
}

/** Code in comments is an example. Ours stand on lines of their own, so no parser is needed. */
function withoutComments(source: string): string {
  const lines = source.split("\n").map((line) => line.replace(/^\s*\/\*.*?\*\//, ""));
  return lines.filter((line) => !/^\s*(\/\/|\/\*|\*)/.test(line)).join("\n");
}

function importsOf(source: string): Import[] {
  const code = withoutComments(source);
  const found: Import[] = [];
  for (const [, specifier] of code.matchAll(/(?<=^|[\s;}*])(?:from|import)\s*["']([^"'\s]+)["']/gm)) {
    found.push({ specifier, dynamic: false });
  }
  for (const [, specifier] of code.matchAll(/\b(?:import|require)\s*\(\s*(?:["']([^"'\s]+)["']\s*\))?/g)) {
    found.push({ specifier, dynamic: true });
  }
  return found;
}

/** The form that all bundlers build with and without the library. */
function isOptional(source: string, library: string): boolean {
  const within = "(?:(?!\\btry\\b)[\\s\\S])*?";
  const form = `try \\{${within}await import\\("${library}"\\)${within}return absent\\("${library}", error\\)`;
  return new RegExp(form).test(source);
}

/** `core`, `backends/redis`, `clients/redis`, or the name of a file that stands at the top. */
function areaOf(path: string): string {
  const parts = path.split("/");
  return (
    parts
      .slice(0, Math.min(parts.length - 1, ["backends", "clients"].includes(parts[0] ?? "") ? 2 : 1))
      .join("/") || path
  );
}

function engineMayImport(area: string): readonly string[] {
  const shares = SHARED_BY[area];
  return ["core", "engine-kit", area, ...(shares ? [shares] : [])];
}

const targetOf = (file: string, specifier: string): string =>
  posix.join(posix.dirname(file), specifier).replace(/\.js$/, ".ts");

/** What is wrong with the imports of a file, one sentence each. */
function objections(file: string, source: string): string[] {
  const area = areaOf(file);
  const mayImport = area.startsWith("backends/") ? engineMayImport(area) : MAY_IMPORT[area];
  if (mayImport === undefined) return [`src/${file}: there is no rule yet for what ${area} may import`];
  return importsOf(source).flatMap(({ specifier, dynamic }) => {
    if (specifier === undefined) {
      return file in MAY_COMPUTE ? [] : [`src/${file} imports something that it computes`];
    }
    const bad = `src/${file} imports "${specifier}"`;
    if (specifier.startsWith("node:")) return specifier.startsWith("node:test") ? [`${bad}, a runner`] : [];
    if (!specifier.startsWith(".")) {
      if (CLIENTS[area]?.includes(specifier) !== true) return [`${bad}, which is not for ${area}`];
      // A caller that brings a client of one library must not need the other one.
      if (!dynamic) return [`${bad} statically`];
      if (NATIVE.includes(specifier)) return [`${bad}, which is native, in words that bundlers follow`];
      return isOptional(source, specifier)
        ? []
        : [`${bad}, but not as an optional library (engine-kit/client-library.ts)`];
    }
    const target = areaOf(targetOf(file, specifier));
    if (!mayImport.includes(target)) return [`${bad}, but ${area} may use only ${mayImport.join(", ")}`];
    if (area === "connect.ts" && target.startsWith("backends/") && !dynamic) return [`${bad} statically`];
    return [];
  });
}

const read = (file: string): string => readFileSync(SRC + file, "utf8");

/** Everything that comes along with a file, itself included. */
function reachOf(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  for (const { specifier } of importsOf(read(file))) {
    if (specifier?.startsWith(".")) reachOf(targetOf(file, specifier), seen);
  }
  return seen;
}

describe("which files may import which", () => {
  test("every source file keeps to the rule", () => {
    expect(FILES.length).toBeGreaterThan(20);
    expect(FILES.flatMap((file) => objections(file, read(file)))).toEqual([]);
  });

  test.each([
    ["core/lease.ts", 'import { redis } from "../backends/redis/index.js";'],
    ["core/lease.ts", 'export type { Locks } from "../locks/locks.js";'],
    ["core/lease.ts", 'import "ioredis";'],
    ["core/lease.ts", 'import { readFile } from "fs";'],
    ["core/lease.ts", 'type Redis = import("ioredis").Redis;'],
    ["core/lease.ts", "const engine = await import(path);"],
    ["core/lease.ts", 'const engine = require("../connect.js");'],
    ["locks/mutex.ts", 'import {\n  memory,\n} from "../backends/memory/index.js";'],
    ["locks/mutex.ts", 'export * from "../index.js";'],
    ["backends/redis/index.ts", 'import { sql } from "../sqlite/sql.generated.js";'],
    ["backends/redis/index.ts", 'import { SqlBackend } from "../sql/backend.js";'],
    ["backends/postgres/index.ts", 'import { mysql } from "../mysql/index.js";'],
    ["backends/sql/backend.ts", 'import { postgres } from "../postgres/index.js";'],
    ["backends/session-queue/claims.ts", 'import { EtcdRpc } from "../etcd/rpc.js";'],
    ["backends/session-queue/claims.ts", 'import { Client } from "../zookeeper/client.js";'],
    ["backends/redis/index.ts", 'import { OwnClaims } from "../session-queue/claims.js";'],
    ["backends/etcd/index.ts", 'import { SqlBackend } from "../sql/backend.js";'],
    ["backends/etcd/index.ts", 'import { encodeName } from "../zookeeper/keys.js";'],
    ["backends/redis/index.ts", 'const library = await import("libsql");'],
    ["clients/redis/ioredis.ts", 'import { Redis } from "ioredis";'],
    ["clients/redis/ioredis.ts", 'await import("ioredis");'],
    ["clients/redis/ioredis.ts", 'try { return await import("ioredis"); } catch { return undefined; }'],
    ["backends/sqlite/schema.ts", 'await import("libsql");'],
    ["backends/redlock/index.ts", 'import { redis } from "../redis/index.js";'],
    ["clients/redis/connection.ts", 'import { redis } from "../../backends/redis/index.js";'],
    ["engine-kit/tls.ts", 'import { createLocks } from "../locks/locks.js";'],
    ["core/lease.ts", 'import { within } from "../engine-kit/request-timeout.js";'],
    ["backends/etcd/index.ts", 'import { RedisLink } from "../../clients/redis/connection.js";'],
    ["backends/redlock/index.ts", 'import { memory } from "../memory/index.js";'],
    ["backends/memory/index.ts", 'import { createLocks } from "../../locks/locks.js";'],
    ["fence/redis.ts", 'import { redis } from "../backends/redis/index.js";'],
    ["fence/redis.ts", 'await import("ioredis");'],
    ["testing/harness.ts", 'import { test } from "vitest";'],
    ["testing/harness.ts", 'import { test } from "node:test";'],
    ["testing/harness.ts", 'import { redis } from "../backends/redis/index.js";'],
    ["connect.ts", 'import { redis } from "./backends/redis/index.js";'],
    ["core.ts", 'export { connect } from "./connect.js";'],
    ["index.ts", 'export { memory } from "./backends/memory/index.js";'],
    ["elsewhere/new.ts", ""],
  ])("the rule bites: src/%s must not say %s", (file, source) => {
    const found = objections(file, source);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(`src/${file}`);
  });

  test.each([
    ["core/lease.ts", 'import { once } from "node:events";\nimport { WHOLE } from "./claim.js";'],
    [
      "clients/redis/library.ts",
      'try {\n  return await import("ioredis");\n} catch (error) {\n  return absent("ioredis", error);\n}',
    ],
    ["backends/sqlite/schema.ts", 'import type { Backend } from "../../core/backend.js";'],
    ["backends/redlock/node.ts", 'import { RedisLink } from "../../clients/redis/connection.js";'],
    ["backends/postgres/index.ts", 'import { SqlBackend } from "../sql/backend.js";'],
    ["backends/etcd/driver.ts", 'import { OwnClaims } from "../session-queue/claims.js";'],
    ["connect.ts", 'await import("./backends/sqlite/index.js");'],
    ["locks/mutex.ts", 'const args = ["--import", from, "x"];\nconst text = "taken from " + name + ".";'],
    ["locks/mutex.ts", '/**\n * import { connect } from "locktender";\n */\n// import "redis";'],
  ])("the rule lets pass what is allowed: src/%s may say %s", (file, source) => {
    expect(objections(file, source)).toEqual([]);
  });
});

/** Files that import each other, directly or by way of others, types included. */
function cyclesIn(folder: string): string[] {
  const files = FILES.filter((file) => file.startsWith(`${folder}/`));
  return files.filter((file) =>
    importsOf(read(file)).some(({ specifier }) => {
      if (!specifier?.startsWith(".")) return false;
      return reachOf(targetOf(file, specifier)).has(file);
    }),
  );
}

test.each(["core", "engine-kit"])("no file of src/%s imports itself by way of others", (folder) => {
  expect(cyclesIn(folder)).toEqual([]);
});

describe("which files know the engines", () => {
  test("connect.ts names every engine", () => {
    const reached = importsOf(read("connect.ts")).map(({ specifier = "" }) => specifier);
    expect(reached).toEqual(
      expect.arrayContaining(ENGINE_NAMES.map((engine) => `./backends/${engine}/index.js`)),
    );
  });

  test("locktender/core reaches no engine, not even by way of others", () => {
    const reached = [...reachOf("core.ts")];
    expect(reached).toContain("locks/locks.ts");
    expect(reached.filter((file) => file.startsWith("backends/") || file === "connect.ts")).toEqual([]);
  });

  test("core and locks do not speak of any engine, not even in a comment", () => {
    // "memory" is also an ordinary word.
    const names = [...ENGINE_NAMES, ...Object.values(CLIENTS).flat()].filter((name) => name !== "memory");
    const pattern = new RegExp(`\\b(?:${names.join("|")})`, "i");
    // One file advises a caller who gave a client or a pool in the wrong place.
    const files = FILES.filter((file) => /^(core|locks)\b/.test(file) && file !== "core/misplaced-client.ts");
    expect(files.filter((file) => pattern.test(read(file)))).toEqual([]);
  });

  test.each(["index.ts", "core.ts"])("src/%s only re-exports", (file) => {
    const reexport = /export\s+(?:type\s+)?(?:\*|\{[^}]*\})\s+from\s+"[^"]+";/g;
    expect(withoutComments(read(file)).replace(reexport, "").trim()).toBe("");
  });
});
