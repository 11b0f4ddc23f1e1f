import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { Cluster } from "iovalkey";
import Libsql from "libsql";
import { connect, createLocks } from "locktender";
import { redis } from "locktender/redis";
import { sqlite } from "locktender/sqlite";
import { describe, expect, onTestFinished, test } from "vitest";
import { database } from "../engines/databases/shared-database.js";
import { shared } from "../servers/shared.js";
import { besideLibraries } from "../support/other-libraries.js";

const versionOf = (library: string): string => {
  const file = new URL(`../../node_modules/${library}/package.json`, import.meta.url);
  const { version } = JSON.parse(readFileSync(file, "utf8")) as { version: string };
  return `${library} ${version}`;
};

async function clientOf(url: string, open = connect): Promise<string | undefined> {
  const locks = await open(url);
  await locks.close();
  return locks.guarantees.client;
}

describe("guarantees tell which client library was chosen", () => {
  test.each([
    ["ioredis", () => shared("redis")],
    ["@grpc/grpc-js", () => shared("etcd")],
    ["pg", () => database("postgres")],
    ["mysql2", () => database("mariadb")],
  ])("%s", async (library, server) => {
    expect(await clientOf((await server()).url)).toBe(versionOf(library));
  });

  test("none where none is needed", async () => {
    expect(await clientOf("memory:")).toBeUndefined();
    expect(await clientOf((await shared("zookeeper")).url)).toBeUndefined();
  });

  test("and that a client was given", async () => {
    const given = new Libsql(":memory:");
    onTestFinished(() => void given.close());
    const locks = createLocks(sqlite({ database: given }));
    expect(locks.guarantees.client).toBe("given");
    await locks.close();
  });
});

describe("by a redis:// URL, the first that is installed", () => {
  test.each([
    [["iovalkey", "redis", "ioredis"], "ioredis"],
    [["iovalkey", "redis"], "redis"],
    [["iovalkey"], "iovalkey"],
  ])("of %j is %s", async (libraries, chosen) => {
    const beside = await besideLibraries(Object.fromEntries(libraries.map((name) => [name, name])));
    onTestFinished(() => beside.remove());
    const { connect: open } = (await import(beside.url("index.js"))) as { connect: typeof connect };
    for (const topology of ["redis", "redis-sentinel", "redis-cluster"] as const) {
      expect(await clientOf((await shared(topology)).url, open)).toBe(versionOf(chosen));
    }
  });

  test("without any, the error names all of them", async () => {
    const beside = await besideLibraries({});
    onTestFinished(() => beside.remove());
    const { connect: open } = (await import(beside.url("index.js"))) as { connect: typeof connect };
    await expect(open("redis://127.0.0.1:1")).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringMatching(/npm install ioredis, or npm install redis, or npm install iovalkey/),
    });
  });
});

describe("a library whose module has nothing but a default export, as in some bundles", () => {
  test.each([
    ["ioredis", "redis", []],
    ["redis", "redis", []],
    ["iovalkey", "redis", []],
    ["@grpc/grpc-js", "etcd", ["@grpc/proto-loader"]],
    ["@grpc/proto-loader", "etcd", ["@grpc/grpc-js"]],
  ] as const)("%s", async (library, server, others) => {
    const beside = await besideLibraries(Object.fromEntries(others.map((name) => [name, name])));
    onTestFinished(() => beside.remove());
    const folder = join(dirname(beside.dist), "node_modules", library);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "package.json"), JSON.stringify({ type: "module", main: "index.js" }));
    const real = createRequire(import.meta.url).resolve(library);
    await writeFile(join(folder, "index.js"), `export { default } from ${JSON.stringify(real)};`);
    const { connect: open } = (await import(beside.url("index.js"))) as { connect: typeof connect };
    const locks = await open((await shared(server)).url);
    onTestFinished(() => locks.close());
    expect(await locks.mutex(`default-${process.pid}`).run((lease) => lease.held)).toBe(true);
  });
});

describe("by a postgres:// URL, the first that is installed", () => {
  test.each([
    [["postgres", "pg"], "pg"],
    [["postgres"], "postgres"],
  ])("of %j is %s", async (libraries, chosen) => {
    const beside = await besideLibraries(Object.fromEntries(libraries.map((name) => [name, name])));
    onTestFinished(() => beside.remove());
    const { connect: open } = (await import(beside.url("index.js"))) as { connect: typeof connect };
    const locks = await open((await database("postgres")).url, { prefix: `chosen_${process.pid}` });
    await locks.mutex("a").run(() => undefined);
    await locks.close();
    expect(locks.guarantees.client).toBe(versionOf(chosen));
  });

  test("without any, the error names both", async () => {
    const beside = await besideLibraries({});
    onTestFinished(() => beside.remove());
    const { connect: open } = (await import(beside.url("index.js"))) as { connect: typeof connect };
    await expect(open("postgres://127.0.0.1:1")).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringMatching(/npm install pg, or npm install postgres/),
    });
  });
});

test("a Cluster of iovalkey that the caller brings locks, lists, and stays open", async () => {
  const nodes = (await shared("redis-cluster")).url.replace("redis+cluster://", "").split(",");
  const client = new Cluster(nodes.map((node) => `redis://${node}`));
  onTestFinished(() => client.disconnect());
  const locks = createLocks(redis({ client, prefix: `iovalkey-${process.pid}` }), { ttl: "60s" });
  const lease = await locks.mutex("a").acquire();
  const waiting = locks.mutex("a").acquire({ wait: "10s" });
  await expect.poll(async () => (await locks.inspect("a")).waiters.length).toBe(1);
  await lease.release();
  expect((await waiting).held).toBe(true);
  const names: string[] = [];
  for await (const { name } of locks.list()) names.push(name);
  expect(names).toEqual(["a"]);
  await locks.close();
  expect(await client.set(`iovalkey-${process.pid}-own`, "1", "EX", 9)).toBe("OK");
});
