import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Redis } from "ioredis";
import { type connect, createLocks } from "locktender";
import { describe, expect, onTestFinished, test } from "vitest";
import type * as RedisModule from "#lib/backends/redis/index.js";
import { LIBRARY } from "../engines/sqlite/default-library.js";
import { shared } from "../servers/shared.js";
import { LOWEST_VERSIONS } from "../support/lowest-versions.js";
import { besideLibraries } from "../support/other-libraries.js";

/** How each library is asked for, with what else is installed then. */
const URLS: Readonly<Record<string, { readonly url: string; readonly beside?: string }>> = {
  ioredis: { url: "redis://127.0.0.1:1" },
  redis: { url: "redis://127.0.0.1:1" },
  iovalkey: { url: "redis://127.0.0.1:1" },
  pg: { url: "postgres://127.0.0.1:1" },
  postgres: { url: "postgres://127.0.0.1:1" },
  mysql2: { url: "mysql://127.0.0.1:1/locks" },
  "@grpc/grpc-js": { url: "etcd://127.0.0.1:1", beside: "@grpc/proto-loader" },
  "@grpc/proto-loader": { url: "etcd://127.0.0.1:1", beside: "@grpc/grpc-js" },
  // Where Node.js has SQLite, no library is asked for.
  ...(LIBRARY === "node:sqlite" ? {} : { libsql: { url: "sqlite:never-opened.db" } }),
};

/** What may be wrong with a package that is installed, and what Node.js says of it. */
const BROKEN: Readonly<Record<string, { readonly code: string; readonly says: string }>> = {
  "it throws": { code: 'throw new Error("made for another Node.js");', says: "made for another Node.js" },
  "a package that it needs is missing": {
    code: 'require("not-installed-anywhere");',
    says: "Cannot find module 'not-installed-anywhere'",
  },
  "its own files are missing": {
    code: 'require("./lib/absent.js");',
    says: "Cannot find module './lib/absent.js'",
  },
};

async function withPackage(
  name: string,
  code: string,
  beside?: string,
  version?: string,
): Promise<typeof connect> {
  const { dist, url, remove } = await besideLibraries(beside === undefined ? {} : { [beside]: beside });
  onTestFinished(remove);
  const folder = join(dirname(dist), "node_modules", name);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify({ name, version, main: "index.js" }));
  await writeFile(join(folder, "index.js"), code);
  return ((await import(url("index.js"))) as { connect: typeof connect }).connect;
}

describe.each(Object.entries(URLS))("%s is installed, but does not load", (name, { url, beside }) => {
  test.each(Object.entries(BROKEN))("%s", async (_, { code, says }) => {
    const open = await withPackage(name, code, beside);
    await expect(open(url)).rejects.toMatchObject({
      code: "unsupported",
      message: `the package "${name}" is installed, but it cannot be loaded: ${says}. Install it again, or another version of it.`,
      cause: expect.objectContaining({ message: expect.stringContaining(says) }),
    });
  });
});

/** A version that is too low in its first, second or third number. */
const TOO_OLD: Readonly<Record<string, string>> = {
  ioredis: "4.28.5",
  redis: "5.0.1",
  iovalkey: "0.0.9",
  pg: "8.10.2-beta.1",
  postgres: "3.4.4",
  mysql2: "2.99.0",
  "@grpc/grpc-js": "1.10.11",
  "@grpc/proto-loader": "0.6.13",
  libsql: "0.5.28",
};

describe.each(Object.entries(URLS))("%s is installed, but too old", (name, { url, beside }) => {
  test("the error names both versions, and what to install", async () => {
    const version = TOO_OLD[name];
    const open = await withPackage(name, "", beside, version);
    await expect(open(url)).rejects.toMatchObject({
      code: "unsupported",
      retryable: false,
      message: `${name} ${version} is installed, and ${LOWEST_VERSIONS[name]} is the lowest version that can be used here. Install a newer one: npm install ${name}@${LOWEST_VERSIONS[name]?.split(".")[0]}`,
    });
  });

  test.each([undefined, "no version"])("one with the version %j is tried", async (version) => {
    const open = await withPackage(name, "", beside, version);
    const error = await open(url).catch((thrown: unknown) => thrown);
    expect(String(error)).not.toMatch(/lowest version/);
  });
});

test("a client of the caller's is not checked", async () => {
  const { dist, url, remove } = await besideLibraries({});
  onTestFinished(remove);
  const folder = join(dirname(dist), "node_modules", "ioredis");
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "package.json"), '{ "name": "ioredis", "version": "4.28.5" }');
  const { redis } = (await import(url("backends/redis/index.js"))) as typeof RedisModule;
  const client = new Redis((await shared("redis")).url);
  onTestFinished(() => client.disconnect());
  const locks = createLocks(redis({ client, prefix: `own-${process.pid}` }));
  onTestFinished(() => locks.close());
  expect(await locks.mutex("a").run((lease) => lease.held)).toBe(true);
});

describe.each(Object.entries(URLS))("%s is not installed", (name, { url, beside }) => {
  test("the error says what to install", async () => {
    const { url: fileUrl, remove } = await besideLibraries(beside === undefined ? {} : { [beside]: beside });
    onTestFinished(remove);
    const { connect: open } = (await import(fileUrl("index.js"))) as { connect: typeof connect };
    await expect(open(url)).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringMatching(new RegExp(`npm install ([^.]* )?${name}\\b`)),
    });
  });
});
