import { createLocks, LockError } from "locktender";
import { memory } from "locktender/memory";
import { expect, test } from "vitest";
import type { CellStore } from "#lib/core/cells.js";

test("a result is stored only when the engine has said so, also if it was found there", async () => {
  const backend = memory();
  const { cells } = backend;
  if (cells === undefined) expect.unreachable();
  const answers: boolean[] = [];
  // As Redis does it when too few of its replicas have seen the change.
  const hesitant: CellStore = {
    read: (name) => cells.read(name),
    async write(name, change) {
      const version = await cells.write(name, change);
      if (version === undefined) return undefined;
      answers.push(answers.length >= 2);
      if (answers.at(-1)) return version;
      throw new LockError("backend", "too few replicas", { retryable: true });
    },
  };
  Object.defineProperty(backend, "cells", { value: hesitant });
  const locks = createLocks(backend);
  let ran = 0;
  expect(await locks.once("x", { keep: "1h" }, () => ++ran)).toEqual({ ran: true, value: 1 });
  expect(answers).toEqual([false, false, true]);
  expect(await locks.once("x", { keep: "1h" }, () => ++ran)).toEqual({ ran: false, value: 1 });
  await locks.close();
});
