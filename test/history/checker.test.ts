import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkHistory,
  type Grant,
  type Granted,
  type HistoryPromise,
  isGranted,
  type Operation,
} from "#lib/testing/history.js";
import { describeHistory } from "#lib/testing/history-describe.js";
import { goodHistory, serve } from "./good-history.js";

const RUNS = { numRuns: 200 };

const promisesBroken = (history: readonly Operation[]): HistoryPromise[] =>
  checkHistory(history).map(({ promise }) => promise);

describe("a good history", () => {
  test("passes, in whatever order its operations are listed", () => {
    const shuffled = goodHistory.chain((history) =>
      fc.shuffledSubarray(history, { minLength: history.length, maxLength: history.length }),
    );
    fc.assert(
      fc.property(shuffled, (history) => {
        expect(checkHistory(history)).toEqual([]);
      }),
      RUNS,
    );
  });

  test("passes with any of its operations missing, as when their records were lost", () => {
    fc.assert(
      fc.property(
        goodHistory.chain((history) => fc.subarray(history)),
        (history) => {
          expect(checkHistory(history)).toEqual([]);
        },
      ),
      RUNS,
    );
  });

  test("of fifty thousand operations is checked in seconds: its time does not grow with the square", () => {
    const history = serve(
      Array.from({ length: 50_000 }, (_, index) => ({
        name: `name ${index % 2}`,
        way: "wait",
        end: "release",
        gap: (index * 7919) % 41,
        asking: 1 + ((index * 104_729) % 30),
        answering: 1 + ((index * 1_299_709) % 30),
        holding: 1 + ((index * 15_485_863) % 20),
      })),
    );
    const startMs = performance.now();
    expect(checkHistory(history)).toEqual([]);
    // Half a second on a machine that does nothing else; every operation beside every other would take minutes.
    expect(performance.now() - startMs).toBeLessThan(20_000);
  });
});

/** Two grants of one lock, of which the first has the lower token. */
type Pair = readonly [Granted, Granted];

function pairs(history: readonly Operation[], wanted: (first: Granted, second: Granted) => boolean): Pair[] {
  const grants = history.filter(isGranted).sort((a, b) => (a.outcome.token < b.outcome.token ? -1 : 1));
  return grants.flatMap((first, index) =>
    grants
      .slice(index + 1)
      .filter((second) => second.name === first.name && wanted(first, second))
      .map((second): Pair => [first, second]),
  );
}

const withGrant = (operation: Granted, change: Partial<Grant>): Granted => ({
  ...operation,
  outcome: { ...operation.outcome, ...change },
});

const swapTokens = ([a, b]: Pair): Operation[] => [
  withGrant(a, { token: b.outcome.token }),
  withGrant(b, { token: a.outcome.token }),
];

/** All the ways to spoil a history: each is a few operations that take the place of those of the same id. */
type Plant = (history: readonly Operation[]) => Operation[][];

const grantsOf = (history: readonly Operation[], change: (grant: Granted) => Partial<Grant>): Operation[][] =>
  history.filter(isGranted).map((grant) => [withGrant(grant, change(grant))]);

const PLANTS: readonly [string, HistoryPromise, Plant][] = [
  [
    "two grants with one token",
    "unique tokens",
    (history) => pairs(history, () => true).map(([a, b]) => [a, withGrant(b, { token: a.outcome.token })]),
  ],
  [
    "a token lower than one that was known before it was asked for",
    "growing tokens",
    (history) => pairs(history, (a, b) => a.outcome.atNs < b.invokedAtNs).map(swapTokens),
  ],
  [
    "a holder that believes for longer than until the next one does",
    "one holder at a time",
    (history) =>
      pairs(history, () => true).map(([a, b]) => {
        const believed = { fromNs: a.outcome.atNs, untilNs: b.outcome.atNs + 1n };
        return [withGrant(a, { believed }), b];
      }),
  ],
  [
    "holders in the wrong order, although neither could know it when asking",
    "holders in token order",
    (history) =>
      pairs(history, (a, b) => a.outcome.atNs >= b.invokedAtNs && a.queued === undefined).map(swapTokens),
  ],
  [
    "a lease that is lost while its promise still runs",
    "a lease lasts as long as it says",
    (history) =>
      grantsOf(history, ({ outcome: { promisedUntilNs = 0n } }) => ({
        end: { kind: "lost", atNs: promisedUntilNs - 1n, loss: "taken" },
      })),
  ],
  [
    "a loss that the holder is not told of",
    "loss is told",
    (history) =>
      grantsOf(history, ({ outcome: { promisedUntilNs = 0n } }) => ({
        end: { kind: "lost", atNs: promisedUntilNs },
      })),
  ],
  [
    "a question of a living process that is never answered",
    "no waiter is lost in the queue",
    (history) => history.map((operation) => [{ ...operation, outcome: undefined, killedAtNs: undefined }]),
  ],
  [
    "a timeout of a waiter without a limit",
    "no waiter is lost in the queue",
    (history) =>
      history
        .filter(isGranted)
        .map(({ outcome: { atNs }, ...asked }) => [
          { ...asked, limited: false, outcome: { kind: "timeout", atNs } },
        ]),
  ],
  [
    "an error although nothing stood still",
    "no waiter is lost in the queue",
    (history) =>
      history.map((operation) => {
        const atNs = operation.invokedAtNs + 1n;
        return [{ ...operation, outcome: { kind: "error", atNs, message: "boom" } }];
      }),
  ],
  [
    "a later claim with a lower token than one in the queue",
    "first come, first served",
    (history) =>
      pairs(
        history,
        (a, b) =>
          a.queued !== undefined && a.queued.fromNs < b.invokedAtNs && a.outcome.atNs >= b.invokedAtNs,
      ).map(swapTokens),
  ],
  [
    "a later claim that is granted while an earlier one still waits in the queue",
    "first come, first served",
    (history) =>
      history.flatMap((first) => {
        const { queued, name } = first;
        if (queued === undefined) return [];
        return history
          .filter(isGranted)
          .filter((later) => later.name === name && later.invokedAtNs > queued.fromNs)
          .map((later) => {
            const untilNs = later.outcome.atNs + 1n;
            return [{ ...first, queued: { ...queued, untilNs } }, later];
          });
      }),
  ],
];

describe("a planted violation is found, and told with the operations that are in it", () => {
  test.each(PLANTS)("%s", (_, promise, plant) => {
    const spoilt = fc.tuple(goodHistory, fc.nat()).map(([history, pick]) => {
      const plants = plant(history);
      const planted = plants[pick % plants.length];
      if (planted === undefined) return undefined;
      const changed = new Map(planted.map((operation) => [operation.id, operation]));
      return { planted, history: history.map((operation) => changed.get(operation.id) ?? operation) };
    });
    fc.assert(
      fc.property(spoilt, (given) => {
        fc.pre(given !== undefined);
        const found = checkHistory(given.history).filter((violation) => violation.promise === promise);
        expect(found).not.toEqual([]);
        const named = new Set(found.flatMap(({ operations }) => operations.map(({ id }) => id)));
        // A pair may contradict others even more; but at least one operation of it is always named.
        expect(given.planted.some(({ id }) => named.has(id))).toBe(true);
      }),
      RUNS,
    );
  });
});

describe("what is no violation", () => {
  const [example] = serve([
    { name: "stock", way: "wait", end: "release", gap: 0, asking: 1, answering: 1, holding: 10 },
  ]).filter(isGranted);
  const { outcome, ...asked } = example as Granted;

  test("silence of a process that was killed", () => {
    expect(promisesBroken([{ ...asked, killedAtNs: 5_000n }])).toEqual([]);
  });

  test("an error where the process or the engine stood still", () => {
    const error = { kind: "error", atNs: 9_000n, message: "no answer" } as const;
    expect(promisesBroken([{ ...asked, stalled: true, outcome: error }])).toEqual([]);
    expect(promisesBroken([{ ...asked, stalled: false, outcome: error }])).toHaveLength(1);
  });

  test("a task that is handed the older claim of its process, past a waiter of another one", () => {
    const at = (token: bigint, atNs: bigint) => ({
      token,
      atNs,
      believed: undefined,
      promisedUntilNs: undefined,
    });
    const waiter = withGrant(
      { ...asked, id: "waiter", invokedAtNs: 10n, queued: { fromNs: 20n, untilNs: 60n }, outcome },
      at(2_048n, 90n),
    );
    const handedOff = (claimedAtNs: bigint) =>
      withGrant({ ...asked, id: "handed off", invokedAtNs: 30n, claimedAtNs, outcome }, at(1_025n, 40n));
    expect(promisesBroken([waiter, handedOff(5n)])).toEqual([]);
    const order = ["first come, first served", "first come, first served"];
    expect(promisesBroken([waiter, handedOff(30n)])).toEqual(order);
  });

  test("a holder that begins in the very moment in which the one before it ends", () => {
    const fromNs = outcome.believed?.untilNs ?? 0n;
    const believed = { fromNs, untilNs: fromNs + 1n };
    const next = withGrant({ ...asked, id: "next", outcome }, { token: 9_999n, atNs: fromNs, believed });
    expect(promisesBroken([{ ...asked, outcome }, next])).toEqual([]);
  });

  test("the same token at another name", () => {
    expect(
      promisesBroken([
        { ...asked, outcome },
        { ...asked, name: "orders", outcome },
      ]),
    ).toEqual([]);
  });
});

test("a broken engine is not told of a thousand times", () => {
  const never = Array.from({ length: 1_000 }, (_, index) => ({
    id: `${index}`,
    worker: "0.0",
    name: "stock",
    invokedAtNs: BigInt(index),
    limited: true,
  }));
  expect(checkHistory(never)).toHaveLength(10);
});

test("a violation is described as a time line that people can read", () => {
  const holds = (id: string, fromMs: number, untilMs: number, token: bigint): Operation => ({
    id,
    worker: id,
    name: "stock",
    invokedAtNs: ms(fromMs - 1),
    limited: true,
    outcome: {
      kind: "granted",
      atNs: ms(fromMs),
      token,
      believed: { fromNs: ms(fromMs), untilNs: ms(untilMs) },
      end: { kind: "released" },
    },
  });
  const history = [holds("a", 1, 5, 1n), holds("b", 4, 8, 2n), holds("c", 9, 10, 3n)];
  const [violation] = checkHistory(history);
  expect(violation && describeHistory(history, violation)).toBe(
    [
      '"stock": one holder at a time. a (token 1) believed from +1.000 ms until +5.000 ms, and b (token 2) from +4.000 ms until +8.000 ms.',
      ">  +0.000 ms  a  asks",
      ">  +1.000 ms  a  granted, token 1",
      ">  +3.000 ms  b  asks",
      ">  +4.000 ms  b  granted, token 2",
      ">  +5.000 ms  a  believes until here (released)",
      ">  +8.000 ms  b  believes until here (released)",
      "   +8.000 ms  c  asks",
      "   +9.000 ms  c  granted, token 3",
      "  +10.000 ms  c  believes until here (released)",
    ].join("\n"),
  );
});

function ms(value: number): bigint {
  return BigInt(value * 1_000_000);
}
