import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  claimNode,
  decodeName,
  encodeName,
  isNodeName,
  numbersAreUsedUp,
  readClaims,
} from "#lib/backends/zookeeper/keys.js";
import { WHOLE } from "#lib/core/claim.js";

/** Characters that mean something to the server or to a client. */
const odd = fc.constantFrom(
  ..."aZ0:-_%/.\\ é",
  "e\u0301",
  "\ue000",
  "\uf8ff",
  "\ufffd",
  "😀",
  "%2F",
  "zookeeper",
  "lock-",
);
const names = fc.oneof(
  fc.array(odd, { minLength: 1, maxLength: 8 }).map((parts) => parts.join("")),
  fc.string({ unit: "grapheme", minLength: 1 }),
);
// biome-ignore lint/suspicious/noControlCharactersInRegex: core lets no control characters pass
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/;
const sensible = names.filter((name) => !CONTROL.test(name) && name.isWellFormed());

describe("names", () => {
  test("every name has a node that ZooKeeper accepts, and comes back from it", () => {
    fc.assert(
      fc.property(sensible, (name) => {
        const node = encodeName(name);
        expect(isNodeName(node) && !node.includes("/")).toBe(true);
        expect(decodeName(node)).toBe(name);
      }),
      { numRuns: 2_000 },
    );
  });

  test("two different names never meet", () => {
    fc.assert(
      fc.property(sensible, sensible, (one, other) => {
        expect(encodeName(one) === encodeName(other)).toBe(one === other);
      }),
      { numRuns: 2_000 },
    );
  });

  test("no name is one of our own nodes, or moves in the tree", () => {
    for (const name of [".", "..", "zookeeper", "%session-1", "%bell-1", "a/b", "/"]) {
      const node = encodeName(name);
      expect([".", "..", "zookeeper"]).not.toContain(node);
      expect(node).not.toMatch(/^%(session|bell)|\//);
    }
  });
});

describe("claims", () => {
  test("the name of a node says all that the rule needs", () => {
    expect(readClaims([`${claimNode({ id: "a-b_C", weight: 2, capacity: 5 })}0000000007`])).toEqual([
      {
        node: "_c_a-b_C-2of5-lock-0000000007",
        id: "a-b_C",
        sequence: 7,
        weight: 2,
        capacity: 5,
        sticky: false,
      },
    ]);
    const node = `${claimNode({ id: "a", weight: WHOLE, capacity: WHOLE, sticky: true })}0000000007`;
    expect(readClaims([node])).toMatchObject([{ id: "a", weight: WHOLE, capacity: WHOLE, sticky: true }]);
  });

  test.each([
    ["_c_3f6c-lock-0000000012", 12],
    ["lock-0000000012", 12],
    ["lock--000000012", -12],
    ["lock--2147483648", -2147483648],
    ["lock-2147483647", 2147483647],
    ["3f6c__lock__0000000012", 12],
    ["x-0000000012", 12],
    ["x--2147483648", -2147483648],
    ["0000000012", 12],
  ])("a stranger's %s is exclusive, and has the number %i", (node, sequence) => {
    const theirs = { node, id: node, sequence, weight: WHOLE, capacity: undefined, sticky: false };
    expect(readClaims([node])).toEqual([theirs]);
  });

  test.each(["data", "lock-", "x-123", "x-00000000123"])("%s is no claim", (node) => {
    expect(readClaims([node])).toEqual([]);
  });

  test("they come in the order of their numbers", () => {
    const nodes = ["0000000009", "0000000010", "2147483646"].map((number) => `_c_x-lock-${number}`);
    const claims = readClaims([...nodes].reverse());
    expect(claims.map(({ node }) => node)).toEqual(nodes);
    expect(numbersAreUsedUp(claims)).toBe(false);
  });

  test.each(["2147483647", "-2147483648", "-000000001"])(
    "at %s the numbers say nothing any more",
    (number) => {
      expect(numbersAreUsedUp(readClaims(["_c_x-lock-0000000009", `_c_x-lock-${number}`]))).toBe(true);
    },
  );
});
