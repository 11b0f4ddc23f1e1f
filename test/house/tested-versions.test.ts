import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { FailoverResult } from "../failover/results.js";
import { FAILOVER_PAGES, ONE_HOLDER, readFailovers, withFailovers } from "../matrix/failover-tables.js";
import {
  CLIENTS,
  FAILOVERS,
  INSTALL_FILE,
  MATRIX_ONLY,
  MIGRATION_FILES,
  NODE_FILES,
  NODE_SQLITE_FILES,
  NODES,
  OLDEST_SERVERS,
  RUNTIMES,
  SERVERS,
  SITE_FILE,
} from "../matrix/matrix.js";
import { BUNDLERS, FRAMEWORKS, TEST_TOOLS } from "../matrix/projects.js";
import { readTable, TABLE_JOBS, withOldest, withPassed } from "../matrix/table.js";
import { LOWEST_VERSIONS } from "../support/lowest-versions.js";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const { engines } = JSON.parse(read("package.json")) as {
  engines: { node: string };
};

interface Files {
  readonly files: readonly string[];
}

const END = ".failover.ts";

/** Where each server is promised, besides docs/choosing.md. */
const PAGES: Readonly<Record<string, readonly string[]>> = {
  Redis: ["redis", "redlock"],
  Valkey: ["redis", "redlock"],
  etcd: ["etcd"],
  ZooKeeper: ["zookeeper"],
  PostgreSQL: ["postgres"],
  MariaDB: ["mysql"],
  MySQL: ["mysql"],
};

describe("docs/tested-versions.md", () => {
  test("each row of the matrix has passed, with its version and its day", () => {
    const rows = readTable();
    expect(rows.map(({ product, which }) => ({ product, which }))).toEqual(
      TABLE_JOBS.map(({ product, which }) => ({ product, which })),
    );
    const incomplete = rows.filter(
      ({ version, date }) => !/^\d+\.\d/.test(version) || !/^20\d\d-\d\d-\d\d$/.test(date),
    );
    expect(incomplete).toEqual([]);
  });

  test("what is promised of each server is written as the matrix knows it", () => {
    const page = read("docs/tested-versions.md");
    expect(withOldest(page)).toBe(page);
  });

  test("a new row replaces its own, and no other", () => {
    const page = read("docs/tested-versions.md");
    const [first, second] = readTable(page);
    if (first === undefined || second === undefined) throw new Error("the table is empty");
    const [changed, kept] = readTable(withPassed(page, [{ ...first, version: "99.1" }], "2099-01-01"));
    expect(changed).toEqual({ ...first, version: "99.1", date: "2099-01-01" });
    expect(kept).toEqual(second);
  });
});

describe("promises", () => {
  test("the lowest version of each client library is the one that an older one is held against", () => {
    const lowest = new Map<string, string>();
    for (const { packages } of Object.values(CLIENTS)) {
      for (const [name, version] of Object.entries(packages)) {
        if (!lowest.has(name)) lowest.set(name, version);
      }
    }
    expect(Object.fromEntries(lowest)).toEqual(LOWEST_VERSIONS);
  });

  test("so is the lowest Node.js of each major version", () => {
    const lowest = engines.node.split(" || ").map(padded);
    const run = Object.values(NODES).filter((version) => /\d+\.\d+\.\d+/.test(version));
    expect(run).toEqual(lowest);
  });

  test("the oldest server of each kind that was run is the one that is promised", () => {
    for (const [product, { version }] of Object.entries(OLDEST_SERVERS)) {
      const first = readTable().find((row) => row.product === product);
      expect(`${product} ${first?.version}.`).toMatch(
        new RegExp(`^${product} ${version.replace(".", "\\.")}\\.`),
      );
    }
    const run = new Set(Object.values(SERVERS).map(({ product }) => product));
    expect([...run].sort()).toEqual(Object.keys(OLDEST_SERVERS).sort());
  });

  test.each(Object.entries(PAGES))(
    "docs/choosing.md and the pages promise %s as it was run",
    (product, names) => {
      const promise = `${product} ${OLDEST_SERVERS[product]?.version} or later`;
      for (const path of ["docs/choosing.md", ...names.map((name) => `docs/engines/${name}.md`)]) {
        const text = read(path);
        expect(text, path).toContain(promise);
        const others = [...text.matchAll(new RegExp(`\\b${product} [\\d.]+ or later`, "g"))].map(
          ([it]) => it,
        );
        expect(new Set(others), path).toEqual(new Set([promise]));
      }
    },
  );
});

test("the page about Deno grants what the matrix grants", () => {
  const [, flags = ""] = /^deno (run .*) app\.ts$/m.exec(read("docs/guide/bun-and-deno.md")) ?? [];
  expect(RUNTIMES.deno?.args).toEqual([...flags.split(" "), "--allow-write"]);
});

test("what npm test leaves out is run by the matrix", () => {
  const rows = [SERVERS, CLIENTS, BUNDLERS, FRAMEWORKS, TEST_TOOLS].flatMap((group) =>
    Object.values<Files>(group),
  );
  const run = new Set([...rows.flatMap(({ files }) => files), INSTALL_FILE, ...MIGRATION_FILES, SITE_FILE]);
  expect(MATRIX_ONLY.filter((file) => !run.has(file))).toEqual([]);
  // Of several filters vitest ignores those that match no file.
  const named = [...MATRIX_ONLY, ...run, ...NODE_FILES, ...NODE_SQLITE_FILES];
  expect(named.filter((file) => !existsSync(new URL(`../../${file}`, import.meta.url)))).toEqual([]);
});

describe("failovers", () => {
  test.each(Object.entries(FAILOVER_PAGES))("docs/engines/%s tells what was counted", (name, servers) => {
    const rows = readFailovers(read(`docs/engines/${name}`));
    expect(rows.length).toBeGreaterThan(3);
    for (const { server, setup, promised, overlaps, notTold, notBack, tokenRegressions } of rows) {
      expect(server).toMatch(servers);
      if (promised.startsWith(ONE_HOLDER)) expect(overlaps, setup).toBe("0");
      // Two primaries that both take writes are the one exception, which docs/failover.md explains.
      if (!/still serves/.test(setup)) expect(tokenRegressions, setup).toBe("0");
      expect(notTold, setup).toMatch(/^0 of /);
      expect(notBack, setup).toMatch(/^0; /);
    }
  });

  test("a set-up that is run again replaces its row, and no other", () => {
    const page = read("docs/engines/mysql.md");
    const [first, ...others] = readFailovers(page);
    if (first === undefined) throw new Error("the table is empty");
    const again = {
      server: first.server.replace(/[\d.]+/, "99.9"),
      setup: first.setup,
      promised: { overlaps: "none" },
      counts: { failovers: 7, grants: 1, slowestBackMs: 0 },
      also: {},
    } as unknown as FailoverResult;
    const [changed, ...kept] = readFailovers(withFailovers(page, [again], "2099-01-01"));
    expect(changed).toMatchObject({ server: again.server, failovers: "7 · 1", date: "2099-01-01" });
    expect(kept).toEqual(others);
  });

  test("every set-up is run by the matrix", () => {
    const run = new Set(Object.values(FAILOVERS).flatMap(({ files }) => files));
    const files = readdirSync(new URL("../failover/", import.meta.url));
    const names = files.filter((file) => file.endsWith(END)).map((file) => file.slice(0, -END.length));
    expect([...run].sort()).toEqual(names.sort());
  });
});

/** `^20.19` as the version that they begin with. */
function padded(range: string): string {
  const parts = range.replace(/^\D+/, "").split(".");
  return [...parts, "0", "0"].slice(0, 3).join(".");
}
