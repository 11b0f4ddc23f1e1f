import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { memory } from "locktender/memory";
import { sqlite } from "locktender/sqlite";
import type { Harness } from "locktender/testing";
import { expect, test } from "vitest";
import { etcdHarness } from "../support/etcd-harness.js";
import { kindsTable } from "../support/kinds-table.js";
import { mysqlHarness } from "../support/mysql-harness.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { quorumLacks } from "../support/quorum-harness.js";
import { redisHarness } from "../support/redis-harness.js";
import { zookeeperHarness } from "../support/zookeeper-harness.js";

const README = fileURLToPath(new URL("../../README.md", import.meta.url));
const [BEGIN, END] = [
  "<!-- what works where: written by test/house/kinds-table.test.ts -->\n",
  "<!-- end -->",
];

/** Nothing is connected to: only what the suite would run there counts. */
const nowhere = { url: "none://127.0.0.1:1/none", host: "127.0.0.1", port: 1, nodes: [] };
const local: Omit<Harness, "engine" | "open"> = {
  processes: { skip: "not asked" },
  network: { skip: "not asked" },
  wipe: { skip: "not asked" },
};

const ENGINES: Readonly<Record<string, Harness>> = {
  memory: { ...local, engine: "memory", open: () => memory() },
  SQLite: { ...local, engine: "sqlite", open: () => sqlite() },
  Redis: redisHarness("single", "ioredis", nowhere),
  Redlock: { ...local, engine: "redlock", open: () => memory(), ...quorumLacks },
  etcd: etcdHarness(nowhere),
  ZooKeeper: zookeeperHarness(nowhere),
  PostgreSQL: postgresHarness(nowhere),
  "MySQL, MariaDB": mysqlHarness(nowhere),
};

test("the table of what works where in README.md is what the suite runs", () => {
  const text = readFileSync(README, "utf8");
  const [before = "", rest = ""] = text.split(BEGIN);
  const [shown = "", after = ""] = rest.split(END);
  const table = `\n${kindsTable(ENGINES)}\n\n`;
  // To write it anew: LOCKTENDER_WRITE_TABLE=1 npx vitest run test/house/kinds-table.test.ts
  if (process.env.LOCKTENDER_WRITE_TABLE) writeFileSync(README, `${before}${BEGIN}${table}${END}${after}`);
  else expect(shown).toBe(table);
});
