import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { durationMs, formatMs } from "#lib/core/duration.js";
import { isLockError } from "#lib/core/errors.js";

const YEAR_MS = 365 * 86_400_000;

describe("a duration", () => {
  test("is milliseconds, or a number with its unit", () => {
    const meant: [unknown, number][] = [
      [0, 0],
      [1.5, 1.5],
      [250, 250],
      ["250ms", 250],
      ["0s", 0],
      ["15s", 15_000],
      ["1.5s", 1_500],
      ["5m", 300_000],
      ["2h", 7_200_000],
      ["365d", YEAR_MS],
    ];
    for (const [value, ms] of meant) expect(durationMs("wait", value)).toBe(ms);
  });

  test("with its unit it is the same as without", () => {
    const units = fc.constantFrom<[string, number]>(["ms", 1], ["s", 1_000], ["m", 60_000], ["h", 3_600_000]);
    fc.assert(
      fc.property(fc.nat({ max: 8_000 }), units, (number, [unit, ms]) => {
        expect(durationMs("wait", `${number}${unit}`)).toBe(number * ms);
        expect(durationMs("wait", number * ms)).toBe(number * ms);
      }),
    );
  });

  test("anything else is an error that names the option and shows what was given, but not much of it", () => {
    const never: unknown[] = [
      undefined,
      null,
      Number.NaN,
      "",
      "5",
      "s",
      "5 s",
      " 5s",
      "5S",
      "-5s",
      "+5s",
      "1e3s",
      "0x5s",
      ".5s",
      "5.s",
      "1,5s",
      "5s5s",
      "5sec",
      "∞s",
      "Infinity",
      true,
      {},
      [],
      [5],
      5n,
      new Date(0),
      Object.create(null),
      { toString: [] },
      Symbol("5s"),
      "9".repeat(400).concat("s"),
      "x".repeat(10_000),
    ];
    for (const value of never) {
      try {
        durationMs("ttl", value);
        expect.unreachable(`${inspect(value)} was taken for a duration`);
      } catch (error) {
        expect(isLockError(error, "invalid-option"), String(error)).toBe(true);
        expect((error as Error).message).toMatch(/^ttl: /);
        expect((error as Error).message.length).toBeLessThan(250);
      }
    }
  });

  test("is never something else than a number of milliseconds in its range, whatever is given", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.double(), fc.anything()), (value) => {
        try {
          const ms = durationMs("x", value, { minMs: 10, maxMs: 1_000 });
          expect(ms).toBeGreaterThanOrEqual(10);
          expect(ms).toBeLessThanOrEqual(1_000);
        } catch (error) {
          expect(isLockError(error, "invalid-option"), String(error)).toBe(true);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  test("must be in its range; for ever is said with Infinity, and only where it may be", () => {
    const range = { minMs: 20, maxMs: 86_400_000 };
    for (const value of [19, "19ms", 86_400_001, "2d", -1, Infinity, -Infinity]) {
      expect(() => durationMs("ttl", value, range), String(value)).toThrow(/^ttl: /);
    }
    expect(durationMs("ttl", 20, range)).toBe(20);
    expect(durationMs("ttl", "1d", range)).toBe(86_400_000);
    expect(durationMs("wait", Infinity, { infinite: true })).toBe(Infinity);
    expect(() => durationMs("wait", -Infinity, { infinite: true })).toThrow(/^wait: /);
    expect(() => durationMs("wait", YEAR_MS + 1, { infinite: true })).toThrow(/out of range/);
    expect(() => durationMs("wait", Number.MAX_VALUE, { infinite: true })).toThrow(/^wait: /);
  });
});

describe("a duration as people say it", () => {
  test("shows two units at most", () => {
    const said: [number, string][] = [
      [0, "0 ms"],
      [0.4, "0 ms"],
      [250, "250 ms"],
      [1_000, "1 s"],
      [4_240, "4.2 s"],
      [60_000, "1 m"],
      [200_000, "3 m 20 s"],
      [3_600_000, "1 h"],
      [5_400_000, "1 h 30 m"],
      [86_400_000, "1 d"],
      [100_000_000, "1 d 3 h"],
    ];
    for (const [ms, text] of said) expect(formatMs(ms)).toBe(text);
  });

  test("never shows a unit as full: 60 s are a minute, and 1000 ms a second", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: YEAR_MS, noNaN: true }), (ms) => {
        const text = formatMs(ms);
        expect(text).toMatch(/^\d+(\.\d)? (ms|s|m|h|d)( \d+ (s|m|h))?$/);
        expect(text).not.toMatch(/\b(1000 ms|60 s|60 m|24 h)\b/);
      }),
      { numRuns: 5_000 },
    );
    for (const ms of [999.7, 59_960, 59_999, 3_599_999, 86_399_999]) {
      expect(formatMs(ms)).not.toMatch(/\b(1000 ms|60 s|60 m|24 h)\b/);
    }
  });
});
