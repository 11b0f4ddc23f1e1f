import type { Owner } from "./claim.js";
import type { Connection } from "./connection.js";
import { type ClaimView, describeOwner, type ResourceView } from "./inspect.js";
import { lookTogether } from "./look.js";
import { plainText } from "./plain-text.js";

/** Somebody who holds something, and waits for something that the next one of the circle holds. */
export interface CircleStep {
  readonly owner: Owner;
  readonly holds: string;
  readonly waitsFor: string;
}

/** As many names as are looked at. */
const MOST_NAMES = 50;

interface Waiter {
  readonly claim: ClaimView;
  readonly at: ResourceView;
  /** What its call chain holds meanwhile. */
  readonly holds: ReadonlySet<string>;
  /** Nobody ahead of it can leave before it has been let in. */
  stuck: boolean;
}

/** Those who wait, by the name at which they do, and by what they hold. */
interface Waiting {
  readonly at: ReadonlyMap<string, readonly Waiter[]>;
  readonly holding: ReadonlyMap<string, readonly Waiter[]>;
}

/**
 * Whether those who wait here and those who hold it wait for each other. Who asks for more while it holds something
 * has written down what: so from name to name it can be followed who waits for whom, across processes.
 */
export async function findCircle(
  connection: Connection,
  view: ResourceView,
): Promise<readonly CircleStep[] | undefined> {
  const waiting = everybodyAt(await gather(connection, view));
  letGo(waiting);
  for (const waiter of waiting.at.get(view.name) ?? []) {
    const circle = waiter.stuck ? circleOf(waiter, waiting) : undefined;
    if (circle !== undefined) return circle;
  }
  return undefined;
}

/** What those hold who wait here, and so on: only whoever can be come to in this way can be in a circle with them. */
async function gather(connection: Connection, view: ResourceView): Promise<readonly ResourceView[]> {
  const views = [view];
  const seen = new Set([view.name]);
  for (let level: readonly ResourceView[] = views; level.length > 0; ) {
    const held = new Set(level.flatMap(({ waiters }) => waiters.flatMap(holdsOf).map(([name]) => name)));
    const names = [...held].filter((name) => !seen.has(name)).slice(0, MOST_NAMES - seen.size);
    for (const name of names) seen.add(name);
    const found = await Promise.all(names.map((name) => lookTogether(connection, name)));
    level = found.filter((one) => one !== undefined);
    views.push(...level);
  }
  return views;
}

function everybodyAt(views: readonly ResourceView[]): Waiting {
  const at = new Map<string, readonly Waiter[]>();
  const holding = new Map<string, Waiter[]>();
  for (const view of views) {
    const waiters = view.waiters.map((claim) => {
      const holds = new Set(holdsOf(claim).map(([name, token]) => keyOf(name, token)));
      return { claim, at: view, holds, stuck: true };
    });
    at.set(view.name, waiters);
    for (const waiter of waiters) {
      for (const key of waiter.holds) holding.set(key, [...(holding.get(key) ?? []), waiter]);
    }
  }
  return { at, holding };
}

/**
 * Whoever holds something and waits for nothing goes on, and leaves; so whoever fits then gets in, and leaves, too;
 * and so on. Those who are left over are stuck.
 */
function letGo({ at, holding }: Waiting): void {
  for (let moved = true; moved; ) {
    moved = false;
    for (const waiters of at.values()) {
      let ahead: number | undefined;
      for (const waiter of waiters) {
        ahead ??= weightOf(
          waiter.at.holders.filter((holder) => waitsIn(holding, waiter.at, holder).length > 0),
        );
        if (waiter.stuck && ahead + waiter.claim.weight <= waiter.at.capacity) {
          waiter.stuck = false;
          moved = true;
        }
        if (waiter.stuck) ahead += waiter.claim.weight;
      }
    }
  }
}

/** Those who hold that, and are stuck elsewhere. */
function waitsIn(holding: Waiting["holding"], { name }: ResourceView, holder: ClaimView): readonly Waiter[] {
  return (holding.get(keyOf(name, String(holder.token))) ?? []).filter(({ stuck }) => stuck);
}

/** From one to whoever holds what it waits for, until that is what it holds itself. */
function circleOf(first: Waiter, { holding }: Waiting): readonly CircleStep[] | undefined {
  const cameFrom = new Map<Waiter, Waiter>();
  const line = [first];
  for (const waiter of line) {
    const { at, holds } = waiter;
    const others = at.holders.filter(({ token }) => !holds.has(keyOf(at.name, String(token))));
    for (const next of others.flatMap((holder) => waitsIn(holding, at, holder))) {
      if (cameFrom.has(next)) continue;
      cameFrom.set(next, waiter);
      if (next === first) return stepsOf(first, cameFrom);
      line.push(next);
    }
  }
  return undefined;
}

function stepsOf(first: Waiter, cameFrom: ReadonlyMap<Waiter, Waiter>): readonly CircleStep[] {
  const steps: CircleStep[] = [];
  for (let waiter = first; steps.length === 0 || waiter !== first; ) {
    const before = cameFrom.get(waiter) as Waiter;
    steps.unshift({ owner: waiter.claim.owner, holds: before.at.name, waitsFor: waiter.at.name });
    waiter = before;
  }
  return steps;
}

/** As its process has written it down; but others can write there, too. */
function holdsOf({ owner: { holds } }: ClaimView): NonNullable<Owner["holds"]> {
  return Array.isArray(holds) ? holds.filter(isNameAndToken) : [];
}

function isNameAndToken(hold: unknown): hold is readonly [name: string, token: string] {
  return Array.isArray(hold) && typeof hold[0] === "string" && typeof hold[1] === "string";
}

function keyOf(name: string, token: string): string {
  return `${token} ${name}`;
}

function weightOf(claims: readonly ClaimView[]): number {
  return claims.reduce((sum, { weight }) => sum + weight, 0);
}

export function describeCircle(steps: readonly CircleStep[]): readonly string[] {
  return [
    "  they wait for each other in a circle, and none of them can go on:",
    ...steps.map(
      ({ owner, holds, waitsFor }) =>
        `    ${describeOwner(owner)} holds "${plainText(holds)}" and waits for "${plainText(waitsFor)}"`,
    ),
    "    take locks in the same order everywhere, or all at once with all()",
  ];
}
