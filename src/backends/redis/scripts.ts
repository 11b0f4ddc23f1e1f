import { makeScript, type RedisClient, runScript, type Script } from "../../clients/redis/client.js";
import { toUs } from "../../clients/redis/replies.js";
import type { ClaimRequest } from "../../core/backend.js";
import { FreshFlight } from "../../core/concurrency.js";
import { metadataOf } from "../../engine-kit/replies.js";
import { lua } from "./lua.generated.js";

const CLAIM = lua["claim-idle"] + lua.common + lua.claim;
const RELEASE = lua["release-only"] + lua.common + lua.release;

export const SCRIPTS = {
  claim: makeScript(lua.start + lua.draw + CLAIM),
  renew: makeScript(lua.start + lua.common + lua.renew),
  release: makeScript(lua.start + RELEASE),
  list: makeScript(lua.start + lua.common + lua.list),
  cell: makeScript(lua.draw + lua.cell),
  batch: makeScript(
    lua.start + lua.draw + asFunction("claim", CLAIM) + asFunction("release", RELEASE) + lua.batch,
  ),
};

/** A whole script as a function with inputs of its own. */
function asFunction(name: string, text: string): string {
  return `local function ${name}(KEYS, ARGV)\n${text}end\n`;
}

/** The arguments of claim.lua. Most calls ask for the same as the call before, so the texts are kept. */
export class ClaimArgs {
  readonly #channel: string;
  readonly #retentionMs: number;
  #last: ClaimRequest | undefined;
  #shape = "";
  #terms = "";
  #keptMs: string | undefined;
  #floor = 0;
  #floorText = "0";

  constructor(channel: string, retentionMs: number) {
    this.#channel = channel;
    this.#retentionMs = retentionMs;
  }

  /** The floor is the lowest ticket to draw; 0 for a claim that has one already. */
  of(request: ClaimRequest, floor: number): readonly string[] {
    const last = this.#last;
    if (last === undefined || !asksTheSame(last, request)) this.#make(request);
    if (floor !== this.#floor) {
      this.#floor = floor;
      this.#floorText = String(floor);
    }
    const args = [`${request.id} ${this.#shape}`, this.#terms, this.#floorText];
    if (this.#keptMs !== undefined) args.push(this.#keptMs);
    return args;
  }

  #make(request: ClaimRequest): void {
    const { ticket, ttlMs, minHoldMs, capacity, weight, fixed, queue, maxWaiters = -1 } = request;
    const grantMs = Math.max(ttlMs, minHoldMs);
    const simple = ticket === undefined && minHoldMs === 0;
    const who = `${this.#channel} ${JSON.stringify(metadataOf(request))}`;
    this.#last = request;
    this.#keptMs = simple ? String(Math.ceil(Math.max(grantMs, this.#retentionMs)) + 1) : undefined;
    this.#shape = `${toUs(grantMs)} ${capacity} ${weight} ${fixed ? 1 : 0} ${toUs(minHoldMs)} ${who}`;
    this.#terms = `${ticket ?? 0} ${toUs(ttlMs)} ${queue ? maxWaiters : "try"} ${this.#retentionMs}`;
  }
}

/** Apart from the id. Each by its name, because that is quicker than a loop, and this is done for each claim. */
function asksTheSame(a: ClaimRequest, b: ClaimRequest): boolean {
  return (
    a.owner === b.owner &&
    a.note === b.note &&
    a.resize === b.resize &&
    a.ticket === b.ticket &&
    a.ttlMs === b.ttlMs &&
    a.minHoldMs === b.minHoldMs &&
    a.capacity === b.capacity &&
    a.weight === b.weight &&
    a.fixed === b.fixed &&
    a.queue === b.queue &&
    a.maxWaiters === b.maxWaiters
  );
}

/** Of one connection: the question that is under way, and the one that the grants of this turn ask together. */
interface Questions {
  readonly flight: FreshFlight<number>;
  ofTurn: Promise<number> | undefined;
}

const questions = new WeakMap<RedisClient, Questions>();

/**
 * How many replicas have all that was written by that connection until now. One question serves all grants that are
 * under way: it is asked after each of them was written, and covers all that was written before it. While a replica is
 * missing, each question blocks its connection. The grants of one call are learnt of in one turn, and ask behind it.
 */
export function replicasThatHave(client: RedisClient, ask: () => Promise<number>): Promise<number> {
  const known = questions.get(client) ?? { flight: new FreshFlight<number>(), ofTurn: undefined };
  questions.set(client, known);
  known.ofTurn ??= Promise.resolve().then(() => {
    known.ofTurn = undefined;
    return known.flight.run(ask);
  });
  return known.ofTurn;
}

/** ioredis tries again by itself, is sent to and fro between the two nodes, and shows only the last of it. */
const MOVING = /\bTRYAGAIN\b|Too many Cluster redirections/;

/** A cluster moves the keys to another node. The script has not run. */
export function isMoving(message: string): boolean {
  return MOVING.test(message);
}

/** The server takes no call with keys of several slots, as one of a cluster. Some hosters say it in their own words. */
export function keepsSlotsApart(message: string): boolean {
  return /^CROSSSLOT\b|\bsame slot\b/.test(message);
}

/** How many of a lock's keys there are: the head of an uncontended one, or those of a queue. */
const THERE = [1, 3];

/**
 * While a cluster moves a slot, it refuses scripts some of whose keys do not exist, as is usual with locks.
 * So only those that may be there are named. The scripts fail before they write anything if they need more;
 * then what was said first stands.
 */
export async function tryFewerKeys(
  error: unknown,
  client: RedisClient,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  if (!(error instanceof Error) || !isMoving(error.message)) throw error;
  for (const count of THERE.filter((fewer) => fewer < keys.length)) {
    try {
      return await runScript(client, script, keys.slice(0, count), args);
    } catch {
      // Not with these keys either.
    }
  }
  throw error;
}
