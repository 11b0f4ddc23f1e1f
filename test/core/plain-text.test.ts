import fc from "fast-check";
import { createLocks, LockError } from "locktender";
import { memory } from "locktender/memory";
import { describe, expect, onTestFinished, test } from "vitest";
import { tokenOf, WHOLE } from "#lib/core/claim.js";
import { asLockError } from "#lib/core/errors.js";
import { plainMessage, plainText, quotedText } from "#lib/core/plain-text.js";

/** What a terminal or a log must never get: controls, separators of lines, direction of reading, halves. */
const RAW = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\p{Cs}]/u;

const HOSTILE = [
  "\u001b[2J\u001b[31mred",
  "a\rb",
  "a\nlocktender: all is well",
  "\u007f",
  "\u0085",
  "\u009b31m",
  "\u2028",
  "\u2029",
  "\u202egnp.exe",
  "\u2066x\u2069",
  "\u200f",
  "\ufeff",
  "\ud800",
  "\u{e0041}",
  "\0",
];

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc.string({ unit: fc.constantFrom(...HOSTILE, "a", '"', "\\", " ", "é", "👩‍👧"), maxLength: 60 }),
);

describe("text of others", () => {
  test("nothing raw is left of it, and it is one line", () => {
    fc.assert(
      fc.property(text, (given) => {
        expect(plainText(given)).not.toMatch(RAW);
        expect(quotedText(given)).not.toMatch(RAW);
      }),
    );
  });

  test("what is escaped once stays as it is", () => {
    fc.assert(
      fc.property(text, (given) => {
        expect(plainText(plainText(given))).toBe(plainText(given));
      }),
    );
  });

  test("what can be printed is printed as it is", () => {
    const printable = fc
      .string({ unit: "grapheme", maxLength: 60 })
      .filter((one) => !/[\p{C}\p{Z}]/u.test(one));
    fc.assert(
      fc.property(printable, (given) => {
        expect(plainText(given)).toBe(given);
      }),
    );
    for (const fine of ["orders:42", "Grüße aus Köln", "注文", "می‌خواهم", "👩‍👧 in line", "a\\:b"]) {
      expect(plainText(fine)).toBe(fine);
    }
  });

  test("in quotation marks it is what JSON makes of it, but for what JSON lets through", () => {
    const ascii = fc.string({ unit: "grapheme-ascii", maxLength: 60 });
    fc.assert(
      fc.property(ascii, (given) => {
        expect(quotedText(given)).toBe(JSON.stringify(given));
      }),
    );
    fc.assert(
      fc.property(text, (given) => {
        expect(quotedText(given)).toMatch(/^"(?:[^"\\]|\\.)*"$/u);
      }),
    );
  });

  test("each character is told apart", () => {
    expect(HOSTILE.map(plainText)).toEqual([
      "\\u001b[2J\\u001b[31mred",
      "a\\rb",
      "a\\nlocktender: all is well",
      "\\u007f",
      "\\u0085",
      "\\u009b31m",
      "\\u2028",
      "\\u2029",
      "\\u202egnp.exe",
      "\\u2066x\\u2069",
      "\\u200f",
      "\\ufeff",
      "\\ud800",
      "\\u{e0041}",
      "\\u0000",
    ]);
  });

  test("however long it is, it is bounded", () => {
    for (const long of ["x", "\u001b", "👩"].map((unit) => unit.repeat(5_000_000))) {
      expect(plainText(long).length).toBeLessThan(10_000);
      expect(plainText(long)).not.toMatch(RAW);
      expect(plainMessage(long).length).toBeLessThan(150_000);
    }
    expect(plainText("x".repeat(1_001))).toBe(`${"x".repeat(1_000)}… (1001 characters)`);
  });

  test("a message that we compose keeps its line breaks, and nothing else", () => {
    fc.assert(
      fc.property(text, (given) => {
        const message = new LockError("backend", `one\n  two ${given}`).message;
        expect(message).toMatch(/^one\n {2}two /);
        expect(message.replaceAll("\n", "")).not.toMatch(RAW);
      }),
    );
  });

  test("the cause is the error as it was", () => {
    const cause = new Error(HOSTILE.join(" "));
    const error = asLockError(cause, "could not ask");
    expect(error.cause).toBe(cause);
    expect(error.message).not.toMatch(RAW);
  });
});

describe("messages of locks", () => {
  const locksOf = (backend = memory(), hostile = "") => {
    const owner = hostile === "" ? {} : { owner: { service: hostile } };
    const locks = createLocks(backend, owner);
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    return locks;
  };

  /** The lines that we compose are those that begin as ours do. */
  function expectPlain(message: string, lines: readonly RegExp[]): void {
    expect(message.replaceAll("\n", "")).not.toMatch(RAW);
    expect(message.split("\n")).toEqual(lines.map((line) => expect.stringMatching(line)));
  }

  // The name of a test is printed, too.
  test.each(HOSTILE.map((one) => [plainText(one), one]))(
    "owner, note, reason, by: %s",
    async (_, hostile) => {
      const backend = memory();
      const locks = locksOf(backend, hostile);
      const lease = await locks.mutex("a").acquire({ note: hostile });
      const timeout = await locksOf(backend)
        .mutex("a")
        .acquire({ wait: "10ms" })
        .catch((error: Error) => error);
      expectPlain((timeout as Error).message, [/^gave up on "a"/, /^ {2}held by /, /^ {2}queue position /]);
      await locksOf(backend).forceRelease("a", { reason: `because ${hostile}`, by: hostile });
      expectPlain(lease.signal.reason.message, [/^lost the lock "a" .*it was taken away by /]);
      expect(lease.signal.reason).toMatchObject({ reason: `because ${hostile}`, by: hostile });
    },
  );

  test("a name that turns the direction of reading", async () => {
    const name = "orders\u202eexe";
    const locks = locksOf();
    const lease = await locks.mutex(name).acquire();
    const error = await locks
      .mutex(name)
      .acquire({ wait: "10ms", within: null })
      .catch((thrown: Error) => thrown);
    expect((error as Error).message).toContain('"orders\\u202eexe"');
    expect(error).toMatchObject({ lock: name });
    expect(`${(await import("node:util")).inspect(lease)}`).not.toMatch(RAW);
  });

  test("names in a deadlock, which other processes have written down", async () => {
    const backend = memory();
    const locks = locksOf(backend);
    const hostile = "b\nall is well\u001b[0m";
    const others = { weight: WHOLE, capacity: WHOLE, ttlMs: 10_000, fixed: false, minHoldMs: 0, queue: true };
    const who = { instance: "i", host: "h", pid: 1 };
    const claim = async (name: string, id: string, holds?: [string, string][]) => {
      const owner = holds === undefined ? who : { ...who, holds };
      const answer = await backend.claim({ name, id, ...others, owner, note: "" });
      return "ticket" in answer ? String(tokenOf(answer.ticket)) : "";
    };
    const a = await claim("a", "first");
    const b = await claim(hostile, "second");
    await claim(hostile, "third", [["a", a]]);
    await claim("a", "fourth", [[hostile, b]]);
    const error = await locks
      .mutex("a")
      .acquire({ wait: "10ms" })
      .catch((thrown: Error) => thrown);
    const { message } = error as Error;
    expect(message.replaceAll("\n", "")).not.toMatch(RAW);
    expect(message).toContain('"b\\nall is well\\u001b[0m"');
    expect(message.split("\n").every((line) => /^(gave up|\s)/.test(line))).toBe(true);
  });
});
