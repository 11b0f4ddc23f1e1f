import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { engines, quorums } from "./engines.js";
import { commands, sideBySide, timeless, tries } from "./side-by-side.js";

/** Few long sequences reach more than many short ones, in the same time: some 700 commands for each engine. */
const RUNS = {
  numRuns: 40,
  interruptAfterTimeLimit: 40_000,
  // Of a copy with a planted bug it is enough to know that it fails: no shorter sequence is looked for.
  endOnFailure: process.env.LOCKTENDER_DIST !== undefined,
};

/** The states that claims of these weights get, one after the other, at a capacity of 3. */
async function enter(backend: Backend, name: string, weights: readonly number[]): Promise<readonly string[]> {
  const states: string[] = [];
  for (const [index, weight] of weights.entries()) {
    const shape = { weight, capacity: 3, ttlMs: 60_000, fixed: false, minHoldMs: 0, queue: true };
    const owner = { instance: "model", host: "here", pid: 1 };
    states.push((await backend.claim({ name, id: `${name}-${index}`, ...shape, owner, note: "" })).state);
  }
  return states;
}

/** Making the first connection may take longer than a vote, or than what is tolerated between two answers. */
async function opened(backend: Backend): Promise<void> {
  for await (const _ of backend.list({ name: "nothing" }));
}

describe.concurrent("the rule and every answer are the same as in memory, whatever is asked in whatever order", () => {
  for (const [engine, open] of Object.entries(engines)) {
    test(`${engine} lets no claim overtake, however light`, async () => {
      const backend = await open();
      const name = `overtaking-${process.pid}`;
      expect(await enter(backend, name, [2, 2, 1, 1])).toEqual(["granted", "waiting", "waiting", "waiting"]);
      await backend.release({ name, id: `${name}-0` });
      expect(await enter(backend, name, [2, 2, 1, 1])).toEqual(["waiting", "granted", "granted", "waiting"]);
      await backend.close();
    });

    test(`${engine} answers as memory does`, async () => {
      const backend = await open();
      await opened(backend);
      await fc.assert(
        fc.asyncProperty(backend.traits.ttl === "session" ? timeless : commands, (list) =>
          sideBySide(backend, list),
        ),
        RUNS,
      );
      await backend.close();
    });
  }

  for (const [engine, open] of Object.entries(quorums)) {
    test(`${engine} answers as memory does`, async () => {
      const backend = await open();
      await opened(backend);
      const property = fc.asyncProperty(tries, (list) => sideBySide(backend, list));
      await fc.assert(property, RUNS);
      await backend.close();
    });
  }
});
