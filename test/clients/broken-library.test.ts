import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { connect } from "locktender";
import { describe, expect, onTestFinished, test } from "vitest";
import { besideLibraries } from "../support/other-libraries.js";
import { LIBRARY } from "../support/sqlite-library.js";

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

async function withPackage(name: string, code: string, beside?: string): Promise<typeof connect> {
  const { dist, url, remove } = await besideLibraries(beside === undefined ? {} : { [beside]: beside });
  onTestFinished(remove);
  const folder = join(dirname(dist), "node_modules", name);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "package.json"), JSON.stringify({ name, main: "index.js" }));
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
