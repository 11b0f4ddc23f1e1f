import { hasMethods, partOf } from "./errors.js";

/** The engine that takes what a caller has at hand, and as which of its options. */
export interface Taker {
  readonly engine: string;
  readonly option: string;
}

const CLIENT: Taker = { engine: "redis", option: "client" };

/** By the methods that only it has. Good enough for advice: the engine itself looks closer. */
const TAKERS: readonly (readonly [methods: readonly string[], taker: Taker])[] = [
  [["evalsha"], CLIENT],
  [["evalSha"], CLIENT],
  [["getConnection"], { engine: "mysql", option: "pool" }],
  [["unsafe", "begin"], { engine: "postgres", option: "sql" }],
  [["prepare", "exec"], { engine: "sqlite", option: "database" }],
];

/** Of a client, a pool or the like that was given in a place where it is not taken. */
export function takerOf(given: unknown): Taker | undefined {
  const taker = TAKERS.find(([methods]) => hasMethods(given, methods))?.[1];
  if (taker !== undefined) return taker;
  if (typeof partOf(given, "totalCount") === "number" && hasMethods(given, ["connect"]))
    return { engine: "postgres", option: "pool" };
  if (Array.isArray(given) && takerOf(given[0]) === CLIENT) return { engine: "redlock", option: "clients" };
  return undefined;
}

export function callOf({ engine, option }: Taker): string {
  return `${engine}({ ${option} })`;
}

/** What to write in place of a call that does not take it. */
export function locksCallOf(taker: Taker): string {
  return `createLocks(${callOf(taker)}), with ${taker.engine} of "locktender/${taker.engine}"`;
}
