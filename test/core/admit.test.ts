import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { admit, TOKEN_STEP, tokenOf, WHOLE } from "#lib/core/claim.js";

interface Weighted {
  readonly weight: number;
}

/** Queues in ticket order, of claims that are each small enough to be granted alone. */
const queue = fc.integer({ min: 1, max: 6 }).chain((capacity) =>
  fc.record({
    capacity: fc.constant(capacity),
    claims: fc.array(
      fc.integer({ min: 1, max: capacity }).map((weight): Weighted => ({ weight })),
      { maxLength: 12 },
    ),
  }),
);
const EXCLUSIVE: Weighted = { weight: WHOLE };
const SHARED: Weighted = { weight: 1 };

const total = (claims: readonly Weighted[]) => claims.reduce((sum, { weight }) => sum + weight, 0);

describe("the one rule", () => {
  test("granted weight never exceeds capacity, and the head is always granted", () => {
    fc.assert(
      fc.property(queue, ({ claims, capacity }) => {
        const granted = admit(claims, capacity);
        expect(total(claims.slice(0, granted))).toBeLessThanOrEqual(capacity);
        expect(granted).toBeGreaterThanOrEqual(Math.min(1, claims.length));
        expect(granted).toBeLessThanOrEqual(claims.length);
      }),
    );
  });

  test("a claim is granted if and only if all ahead of it and itself fit: the granted are a prefix", () => {
    fc.assert(
      fc.property(queue, ({ claims, capacity }) => {
        const granted = admit(claims, capacity);
        for (const index of claims.keys()) {
          expect(index < granted).toBe(total(claims.slice(0, index + 1)) <= capacity);
        }
      }),
    );
  });

  test("a claim that leaves, from wherever in the queue, takes no grant from another claim", () => {
    fc.assert(
      fc.property(queue, fc.nat(), ({ claims, capacity }, seed) => {
        fc.pre(claims.length > 0);
        const before = claims.slice(0, admit(claims, capacity));
        const leaver = claims[seed % claims.length];
        const rest = claims.filter((claim) => claim !== leaver);
        const after = new Set(rest.slice(0, admit(rest, capacity)));
        for (const claim of before) if (claim !== leaver) expect(after.has(claim)).toBe(true);
      }),
    );
  });

  test("a new claim is last, and changes nothing for the claims that are there", () => {
    fc.assert(
      fc.property(queue, fc.integer({ min: 1, max: 6 }), ({ claims, capacity }, weight) => {
        const granted = admit(claims, capacity);
        const withNewcomer = admit([...claims, { weight }], capacity);
        expect(Math.min(withNewcomer, claims.length)).toBe(granted);
      }),
    );
  });

  test("served in ticket order, every claim gets in: none is passed over by one behind it", () => {
    fc.assert(
      fc.property(queue, ({ claims, capacity }) => {
        const order: Weighted[] = [];
        let waiting = claims;
        while (waiting.length > 0) {
          const granted = waiting.slice(0, admit(waiting, capacity));
          expect(granted.length).toBeGreaterThan(0);
          for (const claim of granted) if (!order.includes(claim)) order.push(claim);
          waiting = waiting.slice(1);
        }
        expect(order).toEqual(claims);
      }),
    );
  });

  test("a mutex lets one in, readers share, and a writer keeps its place among them", () => {
    expect(admit([EXCLUSIVE, EXCLUSIVE, SHARED], WHOLE)).toBe(1);
    expect(admit([SHARED, SHARED, SHARED], WHOLE)).toBe(3);
    // Readers behind a waiting writer wait, or it would starve.
    expect(admit([SHARED, EXCLUSIVE, SHARED], WHOLE)).toBe(1);
    expect(admit([], WHOLE)).toBe(0);
  });

  test("a semaphore does not let a small claim past a large one", () => {
    expect(admit([{ weight: 2 }, { weight: 2 }, { weight: 1 }], 3)).toBe(1);
    expect(admit([{ weight: 2 }, { weight: 1 }, { weight: 1 }], 3)).toBe(2);
  });
});

describe("tokens", () => {
  test("they grow with the tickets, leave room for hand-offs, and fit 64 signed bits for centuries", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 53n - 2n }), (ticket) => {
        const lastHandOff = tokenOf(ticket) + TOKEN_STEP - 1n;
        expect(tokenOf(ticket + 1n)).toBeGreaterThan(lastHandOff);
        expect(tokenOf(ticket) / TOKEN_STEP).toBe(ticket);
        expect(BigInt.asIntN(64, lastHandOff)).toBe(lastHandOff);
      }),
    );
  });
});
