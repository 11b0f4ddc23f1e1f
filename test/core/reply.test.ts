import fc from "fast-check";
import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { describe, expect, test } from "vitest";
import { readAnswer, readCell, readPage, readRenewals, readVersion } from "#lib/backends/redis/replies.js";
import {
  readClaims,
  readExtensions,
  readGreeting,
  readReleased,
  readVote,
} from "#lib/backends/redlock/replies.js";
import * as sql from "#lib/backends/sql/replies.js";
import { readScan } from "#lib/clients/redis/replies.js";
import {
  bitIn,
  countIn,
  MetadataText,
  numberIn,
  ownerIn,
  readMetadata,
  textIn,
  ticketIn,
  UNKNOWN_OWNER,
} from "#lib/engine-kit/replies.js";

const STATES = ["granted", "waiting", "refused", "queue-full", "capacity-mismatch", "gone", "held", "young"];

/** Anything, and more often what nearly is a reply. */
const part = fc.oneof(
  fc.constantFrom<unknown>(
    ...STATES,
    "",
    "0",
    "-1",
    "1",
    "1.5",
    "1e3",
    " 1",
    "0x10",
    0,
    -1,
    1,
    1.5,
    true,
    false,
  ),
  fc.constantFrom<unknown>(null, undefined, Number.NaN, Infinity, 2 ** 60, 5n, -5n, [], {}),
  fc.anything(),
);
const reply = fc.oneof(part, fc.array(part, { maxLength: 6 }), fc.array(fc.array(part, { maxLength: 7 })));

/** Every number of an answer is one, and every ticket is from 1 on. */
function isSound(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value === "bigint") return value > 0n;
  return typeof value !== "object" || value === null || Object.values(value).every(isSound);
}

function soundOrThrown(read: (reply: unknown) => unknown): void {
  const property = fc.property(reply, (given) => {
    let answer: unknown;
    try {
      answer = read(given);
    } catch (error) {
      expect(error).toBeInstanceOf(Error);
      return;
    }
    expect(isSound(answer)).toBe(true);
  });
  fc.assert(property, { numRuns: 2_000 });
}

describe("whatever comes as a reply is read as what it says, or refused", () => {
  test.each(
    Object.entries<(reply: unknown) => unknown>({
      "a claim": (given) => readAnswer(given, 1_000),
      renewals: (given) => readRenewals(given, 1),
      "a page of claims": (given) => readPage("a", given),
      "a cell": readCell,
      "a version": readVersion,
      "a scan": readScan,
      "a vote": (given) => readVote(given, 1_000),
      "a greeting": readGreeting,
      extensions: (given) => readExtensions(given, 1),
      "a release": readReleased,
      "claims of a node": (given) => readClaims("a", given),
    }),
  )("%s", (_, read) => soundOrThrown(read));

  const columns = ["verdict", "ticket", "remaining_us", "change_us", "waiters", "live_capacity", "reason"];
  const row = fc.record(Object.fromEntries(columns.map((column) => [column, part])), { requiredKeys: [] });

  test.each([
    ["a claim", sql.readAnswer],
    ["a renewal", sql.readRenewal],
  ])("%s of a database", (_, read) => {
    const property = fc.property(row, (given) => {
      try {
        expect(isSound(read(given))).toBe(true);
      } catch (error) {
        expect(error).toMatchObject({ code: "backend", retryable: false });
      }
    });
    fc.assert(property, { numRuns: 2_000 });
  });
});

test.each(["", "-1", true, "0", 0, -1, 1.5, "1.5", Number.NaN, 2 ** 53, null, undefined, [], {}, [5], "1 "])(
  "%j is no ticket",
  (value) => {
    expect(() => ticketIn(value)).toThrow();
    expect(() => readAnswer(value, 1_000)).toThrow();
  },
);

test("what is a number, also as text, is read", () => {
  expect([ticketIn(7), ticketIn("7"), ticketIn("9007199254740993"), ticketIn(7n)]).toEqual([
    7n,
    7n,
    9007199254740993n,
    7n,
  ]);
  expect([countIn(0), countIn("12"), numberIn("-1.5"), bitIn("1"), bitIn(0), textIn("")]).toEqual([
    0,
    12,
    -1.5,
    true,
    false,
    "",
  ]);
  for (const value of ["", " ", "0x1", "1e3", true, null, "Infinity"])
    expect(() => numberIn(value)).toThrow();
  for (const value of [2, -1, true, ""]) expect(() => bitIn(value)).toThrow();
});

test("an owner that cannot be read is that of another program", () => {
  const owner = { instance: "i", host: "h", pid: 1, service: "s", holds: [], later: true };
  expect(ownerIn(owner)).toBe(owner);
  for (const value of [null, undefined, 5, "x", [], {}, { ...owner, host: 5 }, { ...owner, service: {} }]) {
    expect(ownerIn(value)).toBe(UNKNOWN_OWNER);
  }
});

test("what is shown about a claim is one object, read back as it was written", () => {
  const owner = { instance: "i", host: "h", pid: 1 };
  const text = new MetadataText();
  expect(JSON.parse(text.of({ owner, note: "" }))).toEqual({ v: 1, owner });
  const claim = { owner: { ...owner, holds: [["x", "1024"] as const] }, note: "why", resize: 4 };
  const stored = JSON.parse(text.of(claim));
  expect(stored).toEqual({ v: 1, owner, note: "why", holds: [["x", "1024"]], resize: 4 });
  expect(readMetadata({ ...stored, later: true })).toMatchObject(claim);
  expect(text.of({ owner, note: "why" })).not.toBe(text.of({ owner, note: "other" }));
});

test("what releases before have stored is still shown", () => {
  const owner = { instance: "i", host: "h", pid: 1, holds: [["x", "1024"]] };
  expect(readMetadata([owner, "why"])).toMatchObject({ owner, note: "why" });
  expect(readMetadata({ owner, note: "why", bell: "b" })).toMatchObject({ owner, note: "why", notify: "b" });
  const row = { id: "i", ticket: "1", weight: 1, capacity: 1, age_us: "0", remaining_us: "0" };
  const columns = { owner: JSON.stringify(owner), note: '"why"' };
  expect(sql.readRecord("n", { ...row, ...columns })).toMatchObject({ owner, note: "why" });
  expect(sql.forceOf('"why"', '"me"')).toEqual({ reason: "why", by: "me" });
});

test("metadata that cannot be read is that of another program", () => {
  for (const stored of [undefined, null, 5, "x", [], {}, { owner: 5, note: {}, resize: "3", notify: 7 }]) {
    expect(readMetadata(stored)).toEqual({ owner: UNKNOWN_OWNER, note: "", notify: undefined });
  }
});

test("what is stored as a value, and is no JSON, is an error of the engine", async () => {
  const backend = memory();
  const locks = createLocks(backend);
  for (const name of ["c", "s:\\permits"]) await backend.cells?.write(name, { text: "{" });
  const refused = { code: "backend", retryable: false };
  await expect(locks.cell("c").read()).rejects.toMatchObject(refused);
  await expect(locks.cell("c").update(() => 1)).rejects.toMatchObject(refused);
  await expect(locks.once("c", { keep: "1m" }, () => 1)).rejects.toMatchObject(refused);
  await expect(locks.semaphore("s").tryAcquire()).rejects.toMatchObject(refused);
  await locks.close();
});
