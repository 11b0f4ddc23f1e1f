import type { ClaimRecord, ResourceRecord } from "../backend.js";
import { admit, type DeadlockStep, type Owner, ticketOf, tokenOf } from "../claim.js";
import type { Connection } from "../connection.js";
import { plainText } from "../plain-text.js";
import { asKnown, describeOwner, lookTogether } from "./view.js";

/** As many names as are looked at. */
const MOST_NAMES = 50;

/** A name, with its claims parted as the rule parts them. */
interface Resource extends ResourceRecord {
  readonly holders: readonly ClaimRecord[];
  readonly waiters: readonly ClaimRecord[];
}

interface Waiter {
  readonly claim: ClaimRecord;
  readonly at: Resource;
  /** The claims that its call chain holds meanwhile, with the token of each lease. */
  readonly holds: ReadonlyMap<string, bigint>;
  /** No claim ahead of it can leave before it has been granted itself. */
  stuck: boolean;
}

/** The waiters, by the name that they wait for, and by what they hold. */
interface Waiting {
  readonly at: ReadonlyMap<string, readonly Waiter[]>;
  readonly holding: ReadonlyMap<string, readonly Waiter[]>;
}

/**
 * Whether a waiter of this name is in a deadlock. A claim that is made while its call chain holds other locks says
 * which, so the search follows from name to name which claim waits for which, across processes.
 */
export async function findDeadlock(
  connection: Connection,
  record: ResourceRecord,
): Promise<readonly DeadlockStep[] | undefined> {
  const waiting = waitersAt(await gather(connection, record));
  letGo(waiting);
  for (const waiter of waiting.at.get(record.name) ?? []) {
    const deadlock = waiter.stuck ? cycleFrom(waiter, waiting) : undefined;
    if (deadlock !== undefined) return deadlock;
  }
  return undefined;
}

/** The names that the waiters here hold, the names that the waiters there hold, and so on: a deadlock is among them. */
async function gather(connection: Connection, first: ResourceRecord): Promise<readonly Resource[]> {
  const resources = [parted(connection, first)];
  const seen = new Set([first.name]);
  for (let level: readonly Resource[] = resources; level.length > 0; ) {
    const held = new Set(level.flatMap(({ waiters }) => waiters.flatMap(holdsOf).map(([name]) => name)));
    const names = [...held].filter((name) => !seen.has(name)).slice(0, MOST_NAMES - seen.size);
    for (const name of names) seen.add(name);
    const found = await Promise.all(names.map((name) => lookTogether(connection, name)));
    level = found.filter((one) => one !== undefined).map((one) => parted(connection, one));
    resources.push(...level);
  }
  return resources;
}

function parted(connection: Connection, record: ResourceRecord): Resource {
  const granted = admit(record.claims, record.capacity);
  const claims = asKnown(connection, record);
  return { ...record, claims, holders: claims.slice(0, granted), waiters: claims.slice(granted) };
}

function waitersAt(resources: readonly Resource[]): Waiting {
  const at = new Map<string, readonly Waiter[]>();
  const holding = new Map<string, Waiter[]>();
  for (const resource of resources) {
    const waiters = resource.waiters.map((claim) => {
      const holds = new Map(
        holdsOf(claim).map(([name, token]) => [keyOf(name, ticketOf(BigInt(token))), BigInt(token)]),
      );
      return { claim, at: resource, holds, stuck: true };
    });
    at.set(resource.name, waiters);
    for (const waiter of waiters) {
      for (const key of waiter.holds.keys()) holding.set(key, [...(holding.get(key) ?? []), waiter]);
    }
  }
  return { at, holding };
}

/**
 * A holder that waits for nothing finishes and leaves. The waiters that fit then are granted, and leave, too; and so
 * on. The waiters that are left over are stuck.
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

/**
 * The waiters that have this claim, and are stuck at another name. A claim that was handed on has another token by now:
 * a wait that outlives the task before it holds nothing any more.
 */
function waitsIn(
  holding: Waiting["holding"],
  { name }: Resource,
  { ticket, owner }: ClaimRecord,
): readonly Waiter[] {
  const key = keyOf(name, ticket);
  const token = tokenOf(ticket, owner.number);
  return (holding.get(key) ?? []).filter(({ stuck, holds }) => stuck && (holds.get(key) ?? 0n) >= token);
}

/** From a waiter to the holders of what it waits for, until one of them waits for what the first one holds. */
function cycleFrom(first: Waiter, { holding }: Waiting): readonly DeadlockStep[] | undefined {
  const cameFrom = new Map<Waiter, Waiter>();
  const line = [first];
  for (const waiter of line) {
    const { at, holds } = waiter;
    const others = at.holders.filter(({ ticket }) => !holds.has(keyOf(at.name, ticket)));
    for (const next of others.flatMap((holder) => waitsIn(holding, at, holder))) {
      if (cameFrom.has(next)) continue;
      cameFrom.set(next, waiter);
      if (next === first) return stepsOf(first, cameFrom);
      line.push(next);
    }
  }
  return undefined;
}

function stepsOf(first: Waiter, cameFrom: ReadonlyMap<Waiter, Waiter>): readonly DeadlockStep[] {
  const steps: DeadlockStep[] = [];
  for (let waiter = first; steps.length === 0 || waiter !== first; ) {
    const before = cameFrom.get(waiter) as Waiter;
    steps.unshift({ owner: waiter.claim.owner, holds: before.at.name, waitsFor: waiter.at.name });
    waiter = before;
  }
  return steps;
}

/** What the call chain of a claim holds, as its process has stored it; but other programs can write there, too. */
function holdsOf({ owner: { holds } }: ClaimRecord): NonNullable<Owner["holds"]> {
  return Array.isArray(holds) ? holds.filter(isNameAndToken) : [];
}

function isNameAndToken(hold: unknown): hold is readonly [name: string, token: string] {
  return Array.isArray(hold) && typeof hold[0] === "string" && /^\d{1,30}$/.test(String(hold[1]));
}

/** By ticket: the token of a claim may differ from it by the number of a hand-off. */
function keyOf(name: string, ticket: bigint): string {
  return `${ticket} ${name}`;
}

function weightOf(claims: readonly ClaimRecord[]): number {
  return claims.reduce((sum, { weight }) => sum + weight, 0);
}

export function describeDeadlock(steps: readonly DeadlockStep[]): readonly string[] {
  return [
    "  deadlock: they wait for each other, and none of them can go on:",
    ...steps.map(
      ({ owner, holds, waitsFor }) =>
        `    ${describeOwner(owner)} holds "${plainText(holds)}" and waits for "${plainText(waitsFor)}"`,
    ),
    "    take locks in the same order everywhere, or all at once with all()",
  ];
}
