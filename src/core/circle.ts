import type { Owner } from "./claim.js";
import type { Connection } from "./connection.js";
import { describeOwner, type ResourceView } from "./inspect.js";
import { lookAt } from "./look.js";

/** Somebody who holds something, and waits for something that the next one of the circle holds. */
export interface CircleStep {
  readonly owner: Owner;
  readonly holds: string;
  readonly waitsFor: string;
}

/** As many claims of a name, and as many names, as are looked at. */
const MOST_CLAIMS = 100;
const MOST_LOOKS = 50;

interface Waiter {
  readonly owner: Owner;
  readonly waitsFor: string;
  /** How it was come to: it holds what that one waits for. */
  readonly next: { readonly waiter: Waiter; readonly by: string } | undefined;
}

/**
 * Whether those who wait here and those who hold it wait for each other. Who asks for more while it holds something
 * has written down what: so from name to name it can be followed who waits for whom, across processes.
 */
export async function findCircle(
  connection: Connection,
  view: ResourceView,
): Promise<readonly CircleStep[] | undefined> {
  const blocking = new Set(view.holders.map(({ token }) => String(token)));
  const seen = new Set<string>();
  const line: Waiter[] = waitersOf(view, undefined);
  for (let looks = 0, at = 0; at < line.length && looks < MOST_LOOKS; at++) {
    const waiter = line[at] as Waiter;
    for (const [name, token] of waiter.owner.holds ?? []) {
      if (waiter.next !== undefined && name === view.name && blocking.has(token))
        return stepsOf(waiter, name);
      const key = `${token} ${name}`;
      if (seen.has(key) || name === view.name || looks >= MOST_LOOKS) continue;
      seen.add(key);
      looks++;
      const there = await lookAt(connection, name, MOST_CLAIMS);
      if (there?.holders.some((holder) => String(holder.token) === token)) {
        line.push(...waitersOf(there, { waiter, by: name }));
      }
    }
  }
  return undefined;
}

function waitersOf(view: ResourceView, next: Waiter["next"]): Waiter[] {
  return view.waiters
    .filter(({ owner }) => Array.isArray(owner.holds) && owner.holds.length > 0)
    .map(({ owner }) => ({ owner, waitsFor: view.name, next }));
}

function stepsOf(last: Waiter, holds: string): readonly CircleStep[] {
  const steps: CircleStep[] = [{ owner: last.owner, holds, waitsFor: last.waitsFor }];
  for (let at = last.next; at !== undefined; at = at.waiter.next) {
    steps.push({ owner: at.waiter.owner, holds: at.by, waitsFor: at.waiter.waitsFor });
  }
  return steps;
}

export function describeCircle(steps: readonly CircleStep[]): readonly string[] {
  return [
    "  they wait for each other in a circle, and none of them can go on:",
    ...steps.map(
      ({ owner, holds, waitsFor }) =>
        `    ${describeOwner(owner)} holds "${holds}" and waits for "${waitsFor}"`,
    ),
    "    take locks in the same order everywhere, or all at once with all()",
  ];
}
