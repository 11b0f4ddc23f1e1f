import { expect, test } from "vitest";
import {
  agreedTicket,
  countReached,
  majorityFreeInMs,
  majorityKeepsMs,
  majorityOf,
} from "#lib/backends/redlock/majority.js";

test.each([
  [3, 2],
  [4, 3],
  [5, 3],
])("of %i servers %i are a majority", (nodes, majority) => expect(majorityOf(nodes)).toBe(majority));

test("a lease lasts for as long as a majority keeps it, not as the one that keeps it longest", () => {
  expect(majorityKeepsMs([9, 1, 7, 5, 3], 3)).toBe(5);
  expect(majorityKeepsMs([9, 7], 3)).toBe(0);
});

test("a ticket is not lower than those of a majority, and says which counters have reached it", () => {
  const tickets = [4, 9, 1, 6, 2];
  expect(agreedTicket(tickets, 3)).toBe(4);
  expect(countReached(tickets, 4)).toBe(3);
  expect(agreedTicket([4, 9], 3)).toBeUndefined();
});

test("there is room when a majority has it, those included that have it now", () => {
  expect(majorityFreeInMs([50, 10, 30], 0, 2)).toBe(30);
  expect(majorityFreeInMs([50, 10], 1, 2)).toBe(10);
  expect(majorityFreeInMs([50], 2, 2)).toBe(0);
  expect(majorityFreeInMs([50], 0, 2)).toBe(Infinity);
});
