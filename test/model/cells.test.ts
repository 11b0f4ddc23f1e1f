import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { memory } from "locktender/memory";
import { describe, expect, test } from "vitest";
import type { CellStore, StoredCell } from "#lib/core/backend.js";
import { engines } from "./engines.js";

/** Which version a change expects: whatever there is, none, the one that is there, one of before, or one that never was. */
const EXPECTATIONS = ["anything", "nothing", "current", "earlier", "later"] as const;

const step = fc.record({
  cell: fc.constantFrom("a", "b"),
  text: fc.option(fc.constantFrom("1", "2", '"x"'), { nil: undefined }),
  expects: fc.constantFrom(...EXPECTATIONS),
});
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** What a cell is, in the fewest words. */
class Model {
  current: StoredCell | undefined;
  last = 0n;
  earlier = 0n;

  expected(expects: Step["expects"]): bigint | null | undefined {
    if (expects === "anything") return undefined;
    if (expects === "nothing") return null;
    if (expects === "current") return this.current?.version ?? null;
    return expects === "earlier" && this.earlier > 0n ? this.earlier : this.last + 1n;
  }

  allows(ifVersion: bigint | null | undefined): boolean {
    return ifVersion === undefined || (this.current?.version ?? null) === ifVersion;
  }

  change(text: string | undefined, version: bigint): void {
    this.earlier = this.last;
    this.last = version;
    this.current = text === undefined ? undefined : { text, version };
  }
}

async function followsTheModel(store: CellStore, steps: readonly Step[]): Promise<void> {
  const run = randomUUID();
  const models = { a: new Model(), b: new Model() };
  for (const { cell, text, expects } of steps) {
    const model = models[cell as keyof typeof models];
    const ifVersion = model.expected(expects);
    const version = await store.write(`${run}:${cell}`, { text, ifVersion });
    expect(version !== undefined).toBe(model.allows(ifVersion));
    // A client that deletes what is not there changes nothing.
    const changed = text !== undefined || model.current !== undefined;
    if (version !== undefined && changed) {
      expect(version).toBeGreaterThan(model.last);
      model.change(text, version);
    }
    for (const [name, { current }] of Object.entries(models)) {
      const found = await store.read(`${run}:${name}`);
      expect(found && { text: found.text, version: found.version }).toEqual(current);
    }
  }
}

describe.concurrent("a cell is what it should be, whatever is written in whatever order", () => {
  test.for(Object.entries({ memory: async () => memory(), ...engines }))("%s", async ([, open]) => {
    const backend = await open();
    const { cells } = backend;
    if (cells === undefined) return expect.unreachable();
    const property = fc.asyncProperty(fc.array(step, { maxLength: 20 }), (steps) =>
      followsTheModel(cells, steps),
    );
    await fc.assert(property, { numRuns: 40, interruptAfterTimeLimit: 8_000 });
    await backend.close();
  });
});
