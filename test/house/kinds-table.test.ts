import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Harness } from "locktender/testing";
import { expect, test } from "vitest";
import { etcdHarness } from "../engines/etcd/harness.js";
import { memoryHarness } from "../engines/memory/harness.js";
import { mysqlHarness } from "../engines/mysql/harness.js";
import { postgresHarness } from "../engines/postgres/harness.js";
import { redisHarness } from "../engines/redis/harness.js";
import { quorumLacks } from "../engines/redlock/harness.js";
import { sqliteHarness } from "../engines/sqlite/harness.js";
import { zookeeperHarness } from "../engines/zookeeper/harness.js";
import { kindsTable } from "../support/kinds-table.js";

const README = fileURLToPath(new URL("../../README.md", import.meta.url));
const [BEGIN, END] = [
  "<!-- what works where: written by test/house/kinds-table.test.ts -->\n",
  "<!-- end -->",
];

/** Nothing is connected to: only what the suite would run there counts. */
const nowhere = { url: "none://127.0.0.1:1/none", host: "127.0.0.1", port: 1, nodes: [] };
const redlock: Harness = { ...memoryHarness(), engine: "redlock", ...quorumLacks };

/** With the one file of each that runs all kinds, and what it runs the suite with. */
const ENGINES = {
  memory: { file: "memory/conformance", by: "memoryHarness()", harness: memoryHarness() },
  SQLite: { file: "sqlite/conformance", by: "sqliteHarness(", harness: sqliteHarness("none") },
  Redis: {
    file: "redis/conformance-single-ioredis",
    by: 'redisHarness("single", "ioredis", ',
    harness: redisHarness("single", "ioredis", nowhere),
  },
  // Made of servers that answer; what it lacks is known without them.
  Redlock: { file: "redlock/conformance-ioredis", by: 'await quorumHarness("ioredis", ', harness: redlock },
  etcd: { file: "etcd/conformance", by: "etcdHarness(", harness: etcdHarness(nowhere) },
  ZooKeeper: { file: "zookeeper/conformance", by: "zookeeperHarness(", harness: zookeeperHarness(nowhere) },
  PostgreSQL: { file: "postgres/conformance", by: "postgresHarness(", harness: postgresHarness(nowhere) },
  "MySQL, MariaDB": { file: "mysql/conformance", by: "mysqlHarness(", harness: mysqlHarness(nowhere) },
} as const;

const HARNESSES = Object.fromEntries(
  Object.entries(ENGINES).map(([engine, { harness }]) => [engine, harness] as const),
);

test("the table of what works where in README.md is what the suite runs", () => {
  const text = readFileSync(README, "utf8");
  const [before = "", rest = ""] = text.split(BEGIN);
  const [shown = "", after = ""] = rest.split(END);
  const table = `\n${kindsTable(HARNESSES)}\n\n`;
  // To write it anew: LOCKTENDER_WRITE_TABLE=1 npx vitest run test/house/kinds-table.test.ts
  if (process.env.LOCKTENDER_WRITE_TABLE) writeFileSync(README, `${before}${BEGIN}${table}${END}${after}`);
  else expect(shown).toBe(table);
});

test.each(Object.entries(ENGINES))("what is counted for %s is what its tests run", (_, { file, by }) => {
  const source = readFileSync(new URL(`../engines/${file}.test.ts`, import.meta.url), "utf8");
  const calls = [...source.matchAll(/^conformance\(\w+, (.*)\);$/gm)].map(([, harness]) => harness);
  // The harness as it is: nothing is spread over it that would leave out a kind.
  expect(calls).toEqual([expect.stringMatching(/^[^{}]*$/)]);
  expect(calls[0]?.startsWith(by)).toBe(true);
});

test("a kind that no case is run of is not called one that works", () => {
  const none = { ...memoryHarness(), kinds: { skip: "shown elsewhere" } };
  const [, , mutex, queue, readWrite] = kindsTable({ memory: none }).split("\n");
  expect([mutex, queue, readWrite].map((row) => row?.split("|").at(2)?.trim())).toEqual(["yes", "yes", "no"]);
});
