import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { memory } from "locktender/memory";
import { expect } from "vitest";
import type { Answer, Backend, Renewal } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";

/** Claims live for ever here, or so shortly that a command that sleeps outlives them. */
const LONG_MS = 60_000;
const LAG_MS = 1_000;
const SHORT_MS = 400;
const LONGER_MS = 120_000;
/** How far the two engines' times may be apart. */
const TOLERANCE_MS = 300;

const IDS = 6;
/** Claims that are made to be outlived have ids of their own: no other command has made them last. */
const EXPIRING = [IDS, IDS + 1, IDS + 2];
/** Claims of a mutex always. */
const MUTEXES = [0, 1];
const NAMES = ["one", "two"];

export type Command =
  | {
      readonly op: "claim";
      readonly id: number;
      readonly name: string;
      readonly weight: number;
      readonly capacity: number;
      readonly short: boolean;
      readonly fixed: boolean;
      readonly minHold: boolean;
      readonly queue: boolean;
      readonly maxWaiters: number | undefined;
      readonly sticky: boolean;
      readonly ticket: "none" | "mine" | "wrong";
    }
  | { readonly op: "renew"; readonly ids: readonly number[]; readonly wrong: boolean }
  | { readonly op: "release"; readonly id: number }
  | { readonly op: "force"; readonly id: number }
  | { readonly op: "outlive" };

const id = fc.nat({ max: IDS - 1 });
const some = (percent: number) => fc.nat({ max: 99 }).map((n) => n < percent);
const permits = fc.integer({ min: 1, max: 3 }).map((weight) => ({ weight, capacity: 3 }));
const readOrWrite = fc.constantFrom(WHOLE, 1).map((weight) => ({ weight, capacity: WHOLE }));

/** A name is nearly always used in the same way, or hardly anything but a mismatch would ever happen. */
const resource = fc.oneof(
  { weight: 10, arbitrary: permits.map((shape) => ({ name: "one", ...shape })) },
  { weight: 8, arbitrary: readOrWrite.map((shape) => ({ name: "two", ...shape })) },
  { weight: 1, arbitrary: readOrWrite.map((shape) => ({ name: "one", ...shape })) },
  { weight: 1, arbitrary: permits.map((shape) => ({ name: "two", ...shape })) },
);

const claim = (shorts: number, whose: fc.Arbitrary<number> = id): fc.Arbitrary<Command> =>
  fc
    .record({
      op: fc.constant("claim" as const),
      id: whose,
      resource,
      short: some(shorts),
      fixed: some(30),
      minHold: some(15),
      queue: some(75),
      maxWaiters: fc.option(fc.nat({ max: 2 }), { nil: undefined, freq: 4 }),
      sticky: some(50),
      ticket: fc.constantFrom("none", "none", "mine", "wrong"),
    })
    .map(({ resource: { name, weight, capacity }, sticky, ...rest }) =>
      // Only the claim of a mutex is ever sticky.
      MUTEXES.includes(rest.id)
        ? { ...rest, name: "two", weight: WHOLE, capacity: WHOLE, sticky }
        : { ...rest, name, weight, capacity, sticky: false },
    );

const release = fc.record({ op: fc.constant("release" as const), id });
const force = fc.record({ op: fc.constant("force" as const), id });
const renew = fc.record({
  op: fc.constant("renew" as const),
  ids: fc.array(id, { maxLength: 4 }),
  wrong: some(30),
});

/** Long ones: left to itself, fast-check makes arrays of five. */
const sequence = (shorts: number, outlives: number, maxLength = 30): fc.Arbitrary<Command[]> =>
  fc.array(
    fc.oneof(
      { weight: 10, arbitrary: claim(shorts) },
      { weight: 4, arbitrary: release },
      { weight: 3, arbitrary: renew },
      { weight: 1, arbitrary: force },
      { weight: outlives, arbitrary: fc.constant<Command>({ op: "outlive" }) },
    ),
    { minLength: maxLength / 6, maxLength, size: "max" },
  );

/** Holders and waiters of a short ttl are outlived, and then renewed, or asked about, before anything else is done. */
const expiring: fc.Arbitrary<Command[]> = fc
  .record({
    before: sequence(0, 0, 18),
    shorts: fc.array(claim(100, fc.constantFrom(...EXPIRING)), { minLength: 2, maxLength: 4, size: "max" }),
    asked: fc.option(claim(0, fc.constantFrom(...EXPIRING)), { nil: undefined }),
    renewed: fc.shuffledSubarray(EXPIRING, { minLength: 2 }),
    after: sequence(0, 0, 12),
  })
  .map(({ before, shorts, asked, renewed, after }) => [
    ...before,
    ...shorts.map(
      (one): Command => ({ ...one, fixed: false, minHold: false, maxWaiters: undefined }) as Command,
    ),
    { op: "outlive" },
    ...(asked === undefined ? [] : [{ ...asked, ticket: "mine" } as Command]),
    { op: "renew", ids: renewed, wrong: false },
    ...after,
  ]);

/** What an engine without a queue offers: whole locks and shares of them, tried. */
const unqueued = (list: readonly Command[]): Command[] =>
  list.map((command) => {
    if (command.op !== "claim") return command;
    const weight = command.weight === 1 ? 1 : WHOLE;
    return { ...command, weight, capacity: WHOLE, queue: false, maxWaiters: undefined };
  });

/**
 * A claim that was forced away is made again with nothing but its id, and by no other ticket: of the two claims of one
 * id that there are then, which locks never make, a quorum's nodes cannot say which of them was forced away.
 */
const unmistaken = (list: readonly Command[]): Command[] => {
  const forced = new Set<number>();
  return list.map((command) => {
    if (command.op === "force") forced.add(command.id);
    if (command.op === "claim" && command.ticket === "wrong" && forced.has(command.id))
      return { ...command, ticket: "none" };
    if (command.op === "renew" && command.ids.some((one) => forced.has(one)))
      return { ...command, wrong: false };
    return command;
  });
};

/** Nothing runs out: for engines whose claims live by a session, and on however slow a machine. */
export const timeless: fc.Arbitrary<Command[]> = sequence(0, 0);

export const commands: fc.Arbitrary<Command[]> = fc.oneof(
  { weight: 4, arbitrary: timeless },
  { weight: 2, arbitrary: expiring },
  { weight: 1, arbitrary: sequence(20, 1) },
);

export const tries: fc.Arbitrary<Command[]> = commands.map(unqueued).map(unmistaken);

/** One engine under test: which ticket it gave to which claim. */
class Side {
  readonly tickets = new Map<string, bigint>();
  /** Whose claim has been answered with its grant. A sticky claim that had to wait is not kept, so nothing depends on whether it is wanted. */
  readonly granted = new Set<string>();

  constructor(readonly backend: Backend) {}

  async claim(command: Command & { op: "claim" }, name: string, key: string): Promise<Answer> {
    const { weight, capacity, short, fixed, minHold, queue, maxWaiters, sticky } = command;
    const mine = command.ticket === "none" ? undefined : this.tickets.get(key);
    const ticket = command.ticket === "wrong" && mine !== undefined ? mine + 1n : mine;
    const answer = await this.backend.claim({
      name,
      id: key,
      ...(ticket === undefined ? undefined : { ticket }),
      weight,
      capacity,
      ttlMs: short ? SHORT_MS : LONG_MS,
      fixed,
      minHoldMs: minHold ? LONGER_MS : 0,
      queue,
      ...(maxWaiters === undefined ? undefined : { maxWaiters }),
      owner: { instance: "model", host: "here", pid: 1, ...(sticky && { sticky }) },
      sticky,
      note: `note of ${key}`,
    });
    if ("ticket" in answer) this.tickets.set(key, answer.ticket);
    if (answer.state === "granted") this.granted.add(key);
    else this.granted.delete(key);
    // A first request whose id was used before, which locks never make: not every engine looks for the reason then.
    if (ticket === undefined && answer.state === "gone") return { state: "gone", loss: "taken" };
    return answer;
  }

  async renew(keys: readonly { name: string; key: string }[], wrong: boolean): Promise<readonly Renewal[]> {
    const renewals = await this.backend.renew(
      keys.map(({ name, key }) => ({
        name,
        id: key,
        ticket: (this.tickets.get(key) ?? 0n) + (wrong ? 1n : 0n),
        ttlMs: LONG_MS,
      })),
    );
    return renewals.map((renewal, index) =>
      renewal.state === "held" && !this.granted.has(keys[index]?.key ?? "")
        ? { state: "held", remainingMs: renewal.remainingMs }
        : renewal,
    );
  }

  async state(name: string): Promise<object> {
    for await (const { capacity, claims } of this.backend.list({ name })) {
      return {
        capacity,
        claims: claims.map(({ id: key, weight, note, owner }) => ({ key, weight, note, owner })),
      };
    }
    return { capacity: 0, claims: [] };
  }
}

/**
 * Times are compared roughly, everything else exactly; tickets by the order they make (see `state`). Whether a process is
 * told from a grant on depends on whether it listens. `tells`: both engines say in renewals that others wait.
 */
function comparable(answer: Answer | Renewal, tells: boolean): object {
  const {
    ticket: _,
    changeInMs: __,
    tells: ___,
    remainingMs,
    wanted,
    ...rest
  } = { ticket: 0n, changeInMs: 0, tells: false, wanted: false, remainingMs: 0, ...answer };
  return {
    ...rest,
    wanted: tells && wanted,
    remaining: lengthOf(remainingMs),
  };
}

function lengthOf(ms: number): string {
  if (ms > LONG_MS + TOLERANCE_MS) return "longer";
  return ms > SHORT_MS + TOLERANCE_MS ? "long" : "short";
}

let lastRun = 0;

/** Runs the same commands on memory and on the other engine, and holds every answer against the other. */
export async function sideBySide(other: Backend, list: readonly Command[]): Promise<void> {
  const run = `model-${process.pid}-${++lastRun}`;
  const sides = [new Side(memory()), new Side(other)] as const;
  const home = new Map<number, string>();
  const tells = other.traits.tellsHolder === true;
  let shortSince = Infinity;
  // On too slow a machine it is not known whether a short claim still lives: then nothing is compared.
  const tooSlow = () => performance.now() - shortSince > SHORT_MS / 2;
  for (const command of list) {
    if (command.op === "outlive") {
      await new Promise((resolve) => setTimeout(resolve, SHORT_MS + 20));
      shortSince = Infinity;
      // No look before the next command: it may drop what has expired, so that a renewal finds nothing to revive.
      continue;
    }
    if (command.op === "claim" && command.short) shortSince = Math.min(shortSince, performance.now());
    const [model, engine] = sides.map((side) => () => perform(side, command, run, home, tells)) as [Act, Act];
    const expected = await model();
    const actual = await untilTold(command, expected, engine);
    if (tooSlow()) return;
    expect(actual, JSON.stringify(command)).toEqual(expected);
    for (const name of NAMES) {
      await expectSameState(sides, `${run}:${name}`, `after ${JSON.stringify(command)}`, tooSlow);
      if (tooSlow()) return;
    }
  }
}

type Act = () => Promise<unknown>;

/** The server of an ensemble may tell a moment later that others wait; a renewal after that says it, too. */
async function untilTold(command: Command, expected: unknown, act: Act): Promise<unknown> {
  const untilMs = performance.now() + LAG_MS;
  for (;;) {
    const actual = await act();
    const lags =
      command.op === "renew" &&
      !isDeepStrictEqual(actual, expected) &&
      isDeepStrictEqual(withoutWanted(actual), withoutWanted(expected));
    if (!lags || performance.now() > untilMs) return actual;
  }
}

function withoutWanted(renewals: unknown): object[] {
  return (renewals as { readonly wanted: boolean }[]).map(({ wanted: _, ...rest }) => rest);
}

/** An ensemble's server may show for a moment what was there before, also after it was asked to catch up. */
async function expectSameState(
  sides: readonly [Side, Side],
  name: string,
  when: string,
  tooSlow: () => boolean,
): Promise<void> {
  const untilMs = performance.now() + LAG_MS;
  for (;;) {
    const [expected, actual] = await Promise.all(sides.map((side) => side.state(name)));
    if (tooSlow() || isDeepStrictEqual(actual, expected)) return;
    if (performance.now() > untilMs) return expect(actual, when).toEqual(expected);
  }
}

/** An id belongs to the name that it was first used with, as in core. */
async function perform(
  side: Side,
  command: Command,
  run: string,
  home: Map<number, string>,
  tells: boolean,
): Promise<unknown> {
  const at = (index: number) => ({ name: `${run}:${home.get(index) ?? "one"}`, key: `${run}-${index}` });
  switch (command.op) {
    case "claim": {
      if (!home.has(command.id)) home.set(command.id, command.name);
      const { name, key } = at(command.id);
      return comparable(await side.claim(command, name, key), tells);
    }
    case "renew":
      return (await side.renew(command.ids.map(at), command.wrong)).map((one) => comparable(one, tells));
    case "release":
      return side.backend.release({ name: at(command.id).name, id: at(command.id).key });
    case "force":
      return side.backend.release(
        { name: at(command.id).name, id: at(command.id).key },
        { reason: "model", by: "test" },
      );
    case "outlive":
      return undefined;
  }
}
