import { describe, expect, test } from "vitest";
import { Broken, initial, type Mistake, type Plan, type State, textOf } from "./protocol/state.js";
import { successors } from "./protocol/steps.js";

const MOST_STATES = 1_000_000;

interface Search {
  readonly states: number;
  readonly grants: number;
  /** What was broken, or nothing when everything that can happen has been looked at. */
  readonly broken: string | undefined;
}

/** Looks at every state that can be reached, until a promise is broken. */
function search(plan: Plan): Search {
  const start = initial(plan);
  const seen = new Set([textOf(start)]);
  const open: State[] = [start];
  let grants = 0;
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    try {
      for (const next of successors(state, plan)) {
        const text = textOf(next);
        if (seen.has(text)) continue;
        seen.add(text);
        open.push(next);
        if (holders(next) > holders(state)) grants++;
      }
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      return { states: seen.size, grants, broken: error.message };
    }
    if (seen.size > MOST_STATES) throw new Error(`more than ${MOST_STATES} states`);
  }
  return { states: seen.size, grants, broken: undefined };
}

function holders({ clients }: State): number {
  return clients.filter(({ phase }) => phase === "holding").length;
}

const small = { attempts: [1, 1], renewals: 0, restarts: 0, tickets: false, skews: [0, 0, 0], ttl: 2 };

const PLANS = {
  "tokens of three clients, at nodes whose clocks differ": {
    ...small,
    attempts: [1, 1, 1],
    tickets: true,
    skews: [0, 4, 2],
    until: 0,
  },
  "tokens at an even number of nodes": { ...small, tickets: true, skews: [0, 4, 2, 6], until: 0 },
  "leases that run out": { ...small, until: 3 },
  "leases that are renewed": { ...small, renewals: 1, until: 3 },
  "a node that loses its memory": { ...small, restarts: 1, until: 3 },
  "tokens after a node has lost its counters": {
    ...small,
    tickets: true,
    skews: [0, 0, 1],
    restarts: 1,
    until: 3,
  },
  "tokens of a client that gives up and asks again": {
    ...small,
    attempts: [2, 1],
    tickets: true,
    skews: [0, 2, 0],
    until: 0,
  },
  "a client that gives up and asks again": { ...small, attempts: [2, 1], until: 0 },
} satisfies Record<string, Plan>;

/** Where each mistake shows, and how. */
const MISTAKES: readonly (readonly [Mistake, keyof typeof PLANS, RegExp])[] = [
  ["no second phase", "tokens of three clients, at nodes whose clocks differ", /^token \d+ after/],
  ["the lowest ticket", "tokens of three clients, at nodes whose clocks differ", /^token \d+ after/],
  ["one vote less than a majority", "leases that run out", /^2 holders/],
  ["trusted from the answer", "leases that run out", /^2 holders/],
  ["trusted from the answer", "leases that are renewed", /^2 holders/],
  ["restarted nodes vote at once", "a node that loses its memory", /^2 holders/],
  ["restarted nodes vote at once", "tokens after a node has lost its counters", /holders|token/],
  ["a late release takes a later attempt", "a client that gives up and asks again", /^2 holders/],
];

describe("whatever happens in whatever order, one holds at a time and tokens grow", () => {
  test.each(Object.entries(PLANS))("%s", (_, plan) => {
    const { broken, grants } = search(plan);
    expect(broken).toBeUndefined();
    expect(grants).toBeGreaterThan(100);
  });
});

describe("the search finds what goes wrong with", () => {
  test.each(MISTAKES)("%s: %s", (mistake, plan, shows) => {
    expect(search({ ...PLANS[plan], mistake }).broken).toMatch(shows);
  });
});
