import fc from "fast-check";
import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { describe, expect, test } from "vitest";
import { isLockError } from "#lib/core/errors.js";
import { canonicalName, groupOf, joinParts } from "#lib/core/names.js";

/** Parts above all of what means something in the joined form. */
const part = fc.oneof(
  fc.string({ unit: fc.constantFrom("a", "b", ":", "\\", "é", "🔒"), minLength: 1, maxLength: 6 }),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 10 }),
);
const parts = fc.array(part, { minLength: 1, maxLength: 4 }).filter((list) => {
  try {
    canonicalName(list);
    return true;
  } catch {
    return false;
  }
});

/** Any value at all, as a caller without types might pass it. */
function outcome(name: unknown): string {
  try {
    return `name ${canonicalName(name as string)}`;
  } catch (error) {
    return isLockError(error) ? error.code : `not ours: ${String(error)}`;
  }
}

describe("names", () => {
  test("two different lists of parts never become one name", () => {
    fc.assert(
      fc.property(parts, parts, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        expect(canonicalName(one)).not.toBe(canonicalName(other));
      }),
      { numRuns: 5_000 },
    );
    expect(canonicalName(["a:b", "c"])).not.toBe(canonicalName(["a", "b:c"]));
    expect(canonicalName(["a\\", "b"])).not.toBe(canonicalName(["a\\:b"]));
  });

  test("a scope is the same as more parts in front, and scopes in scopes are, too", () => {
    fc.assert(
      fc.property(parts, parts, parts, (outer, inner, own) => {
        fc.pre(Buffer.byteLength(joinParts([...outer, ...inner, ...own])) <= 255);
        const whole = canonicalName([...outer, ...inner, ...own]);
        expect(canonicalName(own, [...outer, ...inner])).toBe(whole);
        expect(canonicalName([...inner, ...own], outer)).toBe(whole);
      }),
      { numRuns: 2_000 },
    );
    const locks = createLocks(memory());
    const [tenant, deep] = [locks.scope("tenant", "7"), locks.scope("tenant").scope("7")];
    expect(tenant.mutex(["a:b"]).name).toBe("tenant:7:a\\:b");
    expect(deep.mutex(["a:b"]).name).toBe(tenant.mutex(["a:b"]).name);
  });

  test("a string is taken as the joined form of its parts", () => {
    expect(canonicalName("orders:42")).toBe(canonicalName(["orders", "42"]));
    expect(canonicalName("orders\\:42")).toBe(canonicalName(["orders:42"]));
    fc.assert(
      fc.property(parts, (list) => {
        expect(canonicalName(canonicalName(list))).toBe(canonicalName(list));
      }),
    );
  });

  test("the group is the first part, however it is written", () => {
    expect(groupOf(canonicalName(["orders", "42"]))).toBe("orders");
    expect(groupOf("orders")).toBe("orders");
    fc.assert(
      fc.property(parts, (list) => {
        const [first = ""] = list;
        expect(groupOf(canonicalName(list))).toBe(joinParts([first]));
      }),
      { numRuns: 2_000 },
    );
  });

  test("the length is counted in bytes, with the scope", () => {
    expect(outcome("x".repeat(255))).toMatch(/^name/);
    expect(outcome("x".repeat(256))).toBe("invalid-name");
    expect(outcome("é".repeat(127))).toMatch(/^name/);
    expect(outcome("é".repeat(128))).toBe("invalid-name");
    expect(outcome("🔒".repeat(64))).toBe("invalid-name");
    expect(() => canonicalName("x".repeat(250), ["tenant"])).toThrow(/bytes/);
  });

  test("an error does not repeat all of a name that is too long", () => {
    expect(() => canonicalName("x".repeat(100_000))).toThrow(
      expect.objectContaining({ message: expect.stringMatching(/^.{1,200}$/s) }),
    );
  });

  test("what is no name is an error of ours, whatever it is", () => {
    const never = [
      "",
      [],
      [""],
      ["a", ""],
      "a\u0000b",
      "a\nb",
      "\u007f",
      "\u0085",
      "\u2028",
      "\ud800",
      "a\udfffb",
    ];
    for (const name of never) expect(outcome(name), JSON.stringify(name)).toBe("invalid-name");
    fc.assert(
      fc.property(fc.anything(), (value) => {
        expect(outcome(value)).toMatch(/^(name .+|invalid-name)/s);
      }),
      { numRuns: 2_000 },
    );
    for (const value of [
      new String("x"),
      new Proxy([], {}),
      Object.assign([], { length: 2 }),
      new Array(3),
    ]) {
      expect(outcome(value)).toBe("invalid-name");
    }
  });

  test("names that only look alike stay different: nothing is folded, trimmed or normalised", () => {
    const alike = [
      "order",
      "Order",
      "order ",
      " order",
      "ördér",
      "o\u0308rde\u0301r",
      "ﬁ",
      "fi",
      "ı",
      "i",
      "K",
      "\u212a",
    ];
    expect(new Set(alike.map((name) => canonicalName(name))).size).toBe(alike.length);
  });
});
