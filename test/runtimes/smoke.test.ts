import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../engines/sqlite/default-library.js";
import type { SharedName } from "../engines.js";
import { shared } from "../servers/shared.js";

/** The program and its arguments, as JSON; this Node.js if not given. The matrix names Bun and Deno. */
const RUNTIME = JSON.parse(
  process.env.LOCKTENDER_TEST_RUNTIME ?? JSON.stringify([process.execPath]),
) as string[];
const SMOKE = fileURLToPath(new URL("./smoke.mjs", import.meta.url));
const EXIT_TIMEOUT_MS = 30_000;
/** Longer than the program needs to ask for the file, and shorter than it asks. */
const WRITING_MS = 1_500;

const SERVERS: readonly SharedName[] = ["redis", "etcd", "zookeeper", "postgres", "mariadb"];

async function newFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "locktender-smoke-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, "locks.db");
}

const URLS: Readonly<Record<string, () => Promise<string>>> = {
  memory: async () => "memory:smoke",
  sqlite: async () => `sqlite:${await newFile()}`,
  ...Object.fromEntries(SERVERS.map((name) => [name, async () => (await shared(name)).url])),
};

/** Runs the program to its end. */
async function smoke(url: string): Promise<object> {
  const [program = "", ...args] = RUNTIME;
  const child = spawn(program, [...args, SMOKE, url, `smoke-${process.pid}`], {
    stdio: ["ignore", "pipe", "pipe"],
    timeout: EXIT_TIMEOUT_MS,
  });
  const [[code], output, errors] = await Promise.all([
    once(child, "exit"),
    text(child.stdout),
    text(child.stderr),
  ]);
  return { code, output, errors };
}

const DONE = { code: 0, output: "done\n", errors: "" };

test.each(Object.entries(URLS))("%s: held, waited for, lost, closed, and the process ends", async (_, url) =>
  expect(await smoke(await url())).toEqual(DONE),
);

test("sqlite: a file to which another process writes is waited for", async () => {
  const file = await newFile();
  expect(await smoke(`sqlite:${file}`)).toEqual(DONE);
  const database = openDatabase(file);
  database.exec("BEGIN IMMEDIATE");
  const running = smoke(`sqlite:${file}`);
  await sleep(WRITING_MS);
  database.exec("ROLLBACK");
  database.close();
  expect(await running).toEqual(DONE);
});
