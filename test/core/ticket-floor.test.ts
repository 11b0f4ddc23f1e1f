import { afterEach, expect, test, vi } from "vitest";
import { FLOOR_BOUND_US, TicketFloor } from "#lib/engine-kit/queue.js";

const TICKET = 1_800_000_000_000_000n;
const HOUR_MS = 3_600_000;

afterEach(() => {
  vi.restoreAllMocks();
});

test("without a ticket there is no floor", () => {
  expect(new TicketFloor().lowest()).toBe(0);
});

test("it is the ticket just seen, rounded down to 10 ms", () => {
  const floor = new TicketFloor();
  floor.observe(TICKET + 9_999n, 5);
  expect(floor.lowest(5)).toBe(Number(TICKET));
  floor.observe(TICKET + 10_000n, 5);
  expect(floor.lowest(5)).toBe(Number(TICKET) + 10_000);
});

test("it rises with our clock, a thousandth slower", () => {
  const floor = new TicketFloor();
  floor.observe(TICKET, 5);
  expect(floor.lowest(10_005)).toBe(Number(TICKET) + 9_990_000);
});

test("the highest estimate counts, in whatever order tickets are seen", () => {
  const floor = new TicketFloor();
  floor.observe(TICKET, 0);
  floor.observe(TICKET + 500_000n, 1_000);
  expect(floor.lowest(10_000)).toBe(Number(TICKET) + 9_990_000);
  floor.observe(TICKET + 2_000_000n, 1_000);
  expect(floor.lowest(11_000)).toBe(Number(TICKET) + 11_990_000);
});

test("an estimate farther ahead than a server accepts gives way to what the server draws", () => {
  const floor = new TicketFloor();
  floor.observe(TICKET + BigInt(FLOOR_BOUND_US), 0);
  floor.observe(TICKET, 0);
  expect(floor.lowest(0), "an hour").toBe(Number(TICKET) + FLOOR_BOUND_US);
  floor.observe(TICKET - 10_000n, 0);
  expect(floor.lowest(0), "more").toBe(Number(TICKET) - 10_000);
});

test("a clock of ours that is replaced, as by fake timers, makes no floor that lasts", () => {
  const floor = new TicketFloor();
  floor.observe(TICKET, 0);
  expect(floor.lowest(2 * HOUR_MS)).toBeGreaterThan(Number(TICKET) + FLOOR_BOUND_US);
  floor.observe(TICKET, 2 * HOUR_MS);
  expect(floor.lowest(2 * HOUR_MS)).toBe(Number(TICKET));
  expect(floor.lowest(0), "set back").toBeLessThan(Number(TICKET));
});

test("the clock is looked up at each call", () => {
  const atMs = performance.now();
  const now = vi.spyOn(performance, "now").mockReturnValue(atMs);
  const floor = new TicketFloor();
  floor.observe(TICKET);
  now.mockReturnValue(atMs + 500);
  expect(floor.lowest()).toBe(Number(TICKET) + 490_000);
});

test("a clock of ours that jumps, as with fake timers, moves it by a second at most", () => {
  const floor = new TicketFloor();
  floor.observe(TICKET);
  const real = performance.now.bind(performance);
  const jumped = vi.spyOn(performance, "now").mockImplementation(() => real() + HOUR_MS / 2);
  expect(floor.lowest()).toBeLessThan(Number(TICKET) + 2_000_000);
  jumped.mockRestore();
  expect(floor.lowest()).toBeLessThan(Number(TICKET) + 2_000_000);
  expect(floor.lowest()).toBeGreaterThan(Number(TICKET) - 2_000_000);
});
