import { describe, expect, test } from "vitest";
import { type HistoryRecord, operationsOf, readRecords, writeRecord } from "#lib/testing/history-records.js";

const GRANTED: readonly HistoryRecord[] = [
  { kind: "invoked", id: "a", worker: "0.0", name: "stock", limited: true, atNs: 10n },
  { kind: "returned", id: "a", atNs: 20n, outcome: "granted", token: 7n, stalled: false },
];
const LOOKED: HistoryRecord = { kind: "looked", id: "a", atNs: 21n, promisedUntilNs: 100n };
const ALIVE = { atNs: undefined, killed: false };

/** What became of the one grant of a process. */
function grantOf(records: readonly HistoryRecord[], end: Parameters<typeof operationsOf>[1]) {
  const [operation] = operationsOf(records, end);
  return operation?.outcome?.kind === "granted" ? operation.outcome : undefined;
}

const believedUntil = (...args: Parameters<typeof grantOf>) => grantOf(...args)?.believed?.untilNs;

describe("a holder believes", () => {
  test("from the answer until the look before its release", () => {
    const released: HistoryRecord = { kind: "released", id: "a", atNs: 50n };
    const grant = grantOf([...GRANTED, LOOKED, released], ALIVE);
    expect(grant?.believed).toEqual({ fromNs: 20n, untilNs: 50n });
    expect(grant?.end).toEqual({ kind: "released" });
  });

  test("until its promise ended, when it was told of the loss only later", () => {
    const lost: HistoryRecord = { kind: "lost", id: "a", atNs: 300n, lookedAtNs: 60n, loss: "paused" };
    expect(believedUntil([...GRANTED, LOOKED, lost], ALIVE)).toBe(100n);
  });

  test("until its last look, when it was told of a loss before its promise ended", () => {
    const lost: HistoryRecord = { kind: "lost", id: "a", atNs: 70n, lookedAtNs: 60n, loss: "taken" };
    expect(believedUntil([...GRANTED, LOOKED, lost], ALIVE)).toBe(60n);
  });

  test("for as long as looks say so, even beyond the promise", () => {
    const lost: HistoryRecord = { kind: "lost", id: "a", atNs: 300n, lookedAtNs: 250n, loss: "expired" };
    expect(believedUntil([...GRANTED, LOOKED, lost], ALIVE)).toBe(250n);
  });

  test("until it is killed, but not beyond its promise", () => {
    expect(believedUntil([...GRANTED, LOOKED], { atNs: 80n, killed: true })).toBe(80n);
    expect(believedUntil([...GRANTED, LOOKED], { atNs: 180n, killed: true })).toBe(100n);
  });

  test("until its last look, when that was later than the moment before the kill", () => {
    expect(believedUntil([...GRANTED, LOOKED], { atNs: 5n, killed: true })).toBe(21n);
  });

  test("not at all, when it was over before it first looked", () => {
    const lost: HistoryRecord = { kind: "lost", id: "a", atNs: 300n, loss: "paused" };
    expect(grantOf([...GRANTED, lost], ALIVE)?.believed).toBeUndefined();
  });
});

describe("a kill", () => {
  test("excuses what has no answer yet", () => {
    const [operation] = operationsOf(GRANTED.slice(0, 1), { atNs: 15n, killed: true });
    expect(operation).toMatchObject({ outcome: undefined, killedAtNs: 15n });
  });

  test("says nothing about what was over before", () => {
    const released: HistoryRecord = { kind: "released", id: "a", atNs: 50n };
    const [operation] = operationsOf([...GRANTED, LOOKED, released], { atNs: 90n, killed: true });
    expect(operation?.killedAtNs).toBeUndefined();
  });

  test("by which a process that hung was ended excuses nothing", () => {
    const [operation] = operationsOf(GRANTED.slice(0, 1), { atNs: 15n, killed: false });
    expect(operation?.killedAtNs).toBeUndefined();
  });

  test("in the middle of a line costs that line only", () => {
    const text = [...GRANTED, LOOKED].map(writeRecord).join("");
    expect(readRecords(text)).toEqual([...GRANTED, LOOKED]);
    expect(readRecords(text.slice(0, -5))).toEqual(GRANTED);
  });
});
