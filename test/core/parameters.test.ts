import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { PARAMETERS as MYSQL } from "#lib/backends/mysql/parameters.js";
import { PARAMETERS as POSTGRES } from "#lib/backends/postgres/parameters.js";
import { PARAMETERS as REDIS } from "#lib/backends/redis/options.js";
import { PARAMETERS as REDLOCK } from "#lib/backends/redlock/options.js";

const TABLES = { mysql: MYSQL, postgres: POSTGRES, redis: REDIS };

describe.each(Object.entries(TABLES))("the page of %s", (engine, { honoured }) => {
  test("lists every parameter that is honoured", () => {
    const page = readFileSync(new URL(`../../docs/engines/${engine}.md`, import.meta.url), "utf8");
    const [, section = ""] = page.split("## The URL\n");
    const listed = [...section.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell = ""]) =>
      [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name),
    );
    expect(Object.keys(honoured).filter((name) => !listed.includes(name))).toEqual([]);
  });
});

test.each(Object.entries({ ...TABLES, redlock: REDLOCK }))(
  "nothing of %s that is without effect concerns TLS, or is honoured as well",
  (_, { honoured, withoutEffect }) => {
    expect(withoutEffect.filter((name) => /ssl|tls|cert|verify|channel/i.test(name))).toEqual([]);
    expect(withoutEffect.filter((name) => name in honoured)).toEqual([]);
    expect(new Set(withoutEffect).size).toBe(withoutEffect.length);
  },
);
