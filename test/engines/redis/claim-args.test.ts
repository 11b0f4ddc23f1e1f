import fc from "fast-check";
import { expect, test } from "vitest";
import { ClaimArgs } from "#lib/backends/redis/scripts.js";

const owners = [1, 2].map((pid) => ({ instance: "one", host: "here", pid }));

/** Few values each, so that most requests differ from the one before in a single field, or in none. */
const request = fc.record({
  name: fc.constant("x"),
  id: fc.constantFrom("first", "second"),
  ticket: fc.constantFrom(undefined, undefined, 1_800_000_000_000_000n),
  weight: fc.constantFrom(1, 2),
  capacity: fc.constantFrom(2, 3),
  ttlMs: fc.constantFrom(15_000, 0.5),
  fixed: fc.boolean(),
  minHoldMs: fc.constantFrom(0, 0, 20_000),
  queue: fc.boolean(),
  maxWaiters: fc.constantFrom(undefined, 0, 7),
  owner: fc.constantFrom(...owners),
  note: fc.constantFrom("", "order 42"),
});

test("what is kept from the last claim never shows in a claim that asks for something else", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(request, fc.nat()), { maxLength: 50 }), (claims) => {
      const kept = new ClaimArgs("channel", 600_000);
      for (const [claim, floor] of claims) {
        expect(kept.of(claim, floor)).toEqual(new ClaimArgs("channel", 600_000).of(claim, floor));
      }
    }),
  );
});

test("only a first claim without a minimal time is kept as an uncontended one", () => {
  const claim = { name: "x", id: "i", weight: 1, capacity: 1, ttlMs: 15_000, fixed: false, queue: true };
  const common = { ...claim, owner: owners[0] as (typeof owners)[0], note: "" };
  const args = (minHoldMs: number, ticket?: bigint) =>
    new ClaimArgs("channel", 600_000).of({ ...common, minHoldMs, ticket }, 5).slice(1);
  expect(args(0)).toEqual(["0 15000000 -1 600000", "5", "600001"]);
  expect(args(20_000)).toEqual(["0 15000000 -1 600000", "5"]);
  expect(args(0, 9n)).toEqual(["9 15000000 -1 600000", "5"]);
});
