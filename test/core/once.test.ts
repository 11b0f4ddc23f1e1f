import { createLocks, LockError } from "locktender";
import { memory } from "locktender/memory";
import { expect, test } from "vitest";
import type { CellStore } from "#lib/core/backend.js";

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

test("a holder that has lost the lock before it could look does not begin", async () => {
  const backend = memory();
  const { cells } = backend;
  if (cells === undefined) expect.unreachable();
  let granted = false;
  let away = false;
  const outage = () => new LockError("backend", "away", { retryable: true });
  const { claim, renew } = backend;
  backend.claim = async (request) => {
    const answer = await claim.call(backend, request);
    granted = away = true;
    return answer;
  };
  backend.renew = async (claims) => {
    if (away) throw outage();
    return renew.call(backend, claims);
  };
  const startMs = performance.now();
  // It comes back just when the lease is over, and before the reader stops asking.
  const read: CellStore["read"] = async (name) => {
    if (granted && performance.now() - startMs < 280) throw outage();
    if (granted) await new Promise((resolve) => setTimeout(resolve, 100));
    return cells.read(name);
  };
  Object.defineProperty(backend, "cells", { value: { read, write: cells.write.bind(cells) } });
  const locks = createLocks(backend, { ttl: 300 });
  const work = () => expect.unreachable("it ran beside another holder");
  await expect(locks.once("x", { keep: "1h" }, work)).rejects.toMatchObject({ code: "lost" });
  await locks.close();
});
