import { once } from "node:events";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import { createLocks, isLockError, LeaseLostError, LockError, LockTimeoutError } from "locktender";
import { memory } from "locktender/memory";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { asLockError, backendError } from "#lib/core/errors.js";
import { passing } from "#lib/testing/suite/bench.js";
import { compiled } from "./program.js";

type Copy = typeof import("locktender/core");

/** A second installation of the package, as a dependency of a dependency brings it. */
let folder = "";
let other: Copy;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "locktender-copy-"));
  await cp(fileURLToPath(new URL(".", compiled("index.js"))), folder, {
    recursive: true,
    filter: (path) => !path.endsWith(".ts"),
  });
  await cp(fileURLToPath(new URL("../../package.json", import.meta.url)), join(folder, "package.json"));
  other = (await import(/* @vite-ignore */ `file://${folder}/core.js`)) as Copy;
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function timeoutOf(copy: Copy): Promise<unknown> {
  const locks = copy.createLocks(memory());
  const lease = await locks.mutex("x").acquire();
  const error = await locks
    .mutex("x")
    .acquire({ wait: 10 })
    .catch((thrown: unknown) => thrown);
  await lease.release();
  return error;
}

describe("isLockError", () => {
  test("recognises the errors of another copy of the package, in which instanceof fails", async () => {
    const error = await timeoutOf(other);
    expect(error).not.toBeInstanceOf(LockError);
    expect(isLockError(error)).toBe(true);
    expect(isLockError(error, "timeout")).toBe(true);
    expect(isLockError(error, "lost")).toBe(false);
    expect(other.isLockError(await timeoutOf({ createLocks, isLockError } as Copy), "timeout")).toBe(true);
  });

  test("tells the codes apart, and gives their types", async () => {
    const error: unknown = await timeoutOf({ createLocks } as Copy);
    if (!isLockError(error, "timeout")) expect.unreachable("it is a timeout");
    else expect([error.blockers.length, error.position]).toEqual([1, 1]);
    for (const code of ["lost", "backend", "closed", "queue-full"] as const) {
      expect(isLockError(error, code)).toBe(false);
    }
  });

  test("takes nothing else for one of ours", () => {
    const lookAlike = Object.assign(new Error("x"), {
      code: "timeout",
      name: "LockTimeoutError",
      retryable: true,
    });
    for (const value of [lookAlike, null, undefined, 0, "timeout", {}, [], () => {}, Object.create(null)]) {
      expect(isLockError(value), inspect(value)).toBe(false);
      expect(isLockError(value, "timeout")).toBe(false);
    }
  });
});

describe("an error", () => {
  const named = [
    new LockError("closed", "said", { name: "x" }),
    new LockTimeoutError("x", "said", { blockers: [], position: 1, waitedMs: 5 }),
    new LeaseLostError("x", "said", { loss: "forced", token: 5n, reason: "stuck", by: "ada" }),
  ];

  test("is an Error with its class as its name, its code, the lock and whether to try again", () => {
    expect(named.map(({ name }) => name)).toEqual(["LockError", "LockTimeoutError", "LeaseLostError"]);
    expect(named.map(({ code }) => code)).toEqual(["closed", "timeout", "lost"]);
    expect(named.map(({ retryable }) => retryable)).toEqual([false, true, true]);
    for (const error of named) {
      expect(error).toBeInstanceOf(Error);
      expect(error.lock).toBe("x");
      expect(String(error)).toBe(`${error.name}: said`);
      expect(error.stack).toContain("errors.test.ts");
    }
  });

  test.each(["the loss", "the callback, with the loss"])(
    "of a lease that is lost leads to the run that it has ended, if that is ended by %s",
    async (by) => {
      await using locks = createLocks(memory());
      async function nightly(): Promise<void> {
        await locks.mutex("x").run(async ({ signal }) => {
          const told = once(signal, "abort");
          await locks.forceRelease("x", { reason: "stuck" });
          await told;
          if (by !== "the loss") throw signal.reason;
        });
      }
      const error: unknown = await nightly().catch((reason: unknown) => reason);
      expect(isLockError(error, "lost")).toBe(true);
      expect((error as Error).stack).toMatch(/nightly .*errors\.test\.ts/);
    },
  );

  test("shows in a log what happened, and not the mark by which it is recognised", () => {
    for (const error of named) {
      expect(inspect(error)).toMatch(/code: '(closed|timeout|lost)'/);
      expect(inspect(error)).not.toContain("Symbol(locktender");
      expect(Object.keys(error)).toContain("code");
    }
  });

  test("of a client library becomes one of ours, with the original as its cause; one of ours stays what it is", () => {
    const original = new Error("ECONNRESET");
    const ours = asLockError(original, "could not ask");
    expect(ours).toMatchObject({ code: "backend", retryable: true, message: "could not ask: ECONNRESET" });
    expect(ours.cause).toBe(original);
    const already = backendError("down", { retryable: false });
    expect(asLockError(already, "x")).toBe(already);
    for (const thrown of [undefined, null, "text", 5, {}]) {
      expect(asLockError(thrown, "x")).toMatchObject({ code: "backend", retryable: true });
    }
  });
});

describe("an invalid option value", () => {
  const locks = createLocks(memory());
  const refused = (act: () => unknown) => {
    try {
      act();
    } catch (error) {
      return error as LockError;
    }
    return expect.unreachable();
  };

  test("is told with the name of the lock, and where it belongs", async () => {
    const options = { fair: true } as object;
    const error = await locks
      .mutex("till")
      .run(options, () => undefined)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "invalid-option", lock: "till" });
    expect(String(error)).toMatch(/It is an option of locks\.mutex\(name, \{ fair \}\)\.$/);
    expect(refused(() => locks.mutex("till", { stick: "1s" } as object)).lock).toBe("till");
  });

  test("a claim that stays and a limit of the queue exclude each other; 0 means that it does not stay", () => {
    const both = refused(() => locks.mutex("till", { sticky: "1s", maxWaiters: 3 }));
    expect([both.code, both.message]).toEqual([
      "invalid-option",
      "sticky: with maxWaiters every task has a claim of its own. Give one of them.",
    ]);
    const backend = memory();
    const poor = createLocks({ ...passing(backend), traits: { ...backend.traits, tellsHolder: false } });
    expect(refused(() => poor.mutex("till", { sticky: "1s" }))).toMatchObject({ code: "unsupported" });
    expect(poor.mutex("till", { sticky: 0 }).name).toBe("till");
  });
});
