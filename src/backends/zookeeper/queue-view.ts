import { admit } from "../../core/claim.js";
import type { Client } from "./client.js";
import { unless } from "./errors.js";
import { type ListedClaim, numbersAreUsedUp, readClaims } from "./names.js";
import { ERROR, getChildren, getData, sync } from "./protocol.js";

/**
 * Reads who stands in line. Whoever asks gets an answer to a question that was sent after it asked, so it sees
 * what it has itself sent before; those who ask while one is under way share the next.
 */
export class QueueViews {
  readonly #client: Client;
  readonly #running = new Map<string, Promise<readonly ListedClaim[]>>();
  readonly #next = new Map<string, Promise<readonly ListedClaim[]>>();

  constructor(client: Client) {
    this.#client = client;
  }

  read(parent: string): Promise<readonly ListedClaim[]> {
    const running = this.#running.get(parent);
    if (running === undefined) return this.#start(parent);
    const known = this.#next.get(parent);
    if (known !== undefined) return known;
    const start = () => {
      this.#next.delete(parent);
      return this.#start(parent);
    };
    const next = running.then(start, start);
    this.#next.set(parent, next);
    return next;
  }

  /** What anybody has done before this, too: other servers may be ahead of ours. */
  async latest(parent: string): Promise<readonly ListedClaim[]> {
    const syncing = this.#client.send(sync(parent));
    const [, line] = await Promise.all([syncing, this.#list(parent)]);
    return line;
  }

  #start(parent: string): Promise<readonly ListedClaim[]> {
    const reading = this.#read(parent);
    this.#running.set(parent, reading);
    return reading;
  }

  async #read(parent: string): Promise<readonly ListedClaim[]> {
    try {
      return await this.#list(parent);
    } finally {
      this.#running.delete(parent);
    }
  }

  async #list(parent: string): Promise<readonly ListedClaim[]> {
    const nodes = await this.#client.send(getChildren(parent)).catch(unless(ERROR.noNode));
    const claims = readClaims(nodes ?? []);
    return numbersAreUsedUp(claims) ? this.#byCreation(parent, claims) : claims;
  }

  /** At the price of one more request per claim, until the name is free for a while and its node begins anew. */
  async #byCreation(parent: string, claims: readonly ListedClaim[]): Promise<readonly ListedClaim[]> {
    const looks = claims.map(async (claim) => {
      const read = await this.#client
        .send(getData(`${parent}/${claim.node}`, false))
        .catch(unless(ERROR.noNode));
      return read === undefined ? [] : [{ claim, czxid: read.stat.czxid }];
    });
    const standing = (await Promise.all(looks)).flat();
    return standing.sort((a, b) => Number(a.czxid - b.czxid)).map(({ claim }) => claim);
  }
}

/** The first place of each claim in a line; made once for all who look where they stand in it. */
const positions = new WeakMap<readonly ListedClaim[], ReadonlyMap<string, number>>();

function positionOf(line: readonly ListedClaim[], id: string): number | undefined {
  let known = positions.get(line);
  if (known === undefined) {
    // From the end, so that of several with one id the first stays.
    known = new Map(line.map((claim, at) => [claim.id, at] as const).reverse());
    positions.set(line, known);
  }
  return known.get(id);
}

/**
 * Who stands before a claim; `undefined` if it is not in line itself. Its orphans were made by a session of
 * before, which we have given up and the servers not yet.
 */
export function aheadOf(
  line: readonly ListedClaim[],
  { id, node }: { readonly id: string; readonly node: string | undefined },
): { readonly ahead: readonly ListedClaim[]; readonly orphans: readonly ListedClaim[] } | undefined {
  const first = positionOf(line, id);
  if (first === undefined) return undefined;
  if (line[first]?.node === node) return { ahead: line.slice(0, first), orphans: [] };
  const at = line.findIndex((claim) => claim.node === node);
  if (at === -1) return undefined;
  const ahead = line.slice(0, at);
  return {
    ahead: ahead.filter((claim) => claim.id !== id),
    orphans: ahead.filter((claim) => claim.id === id),
  };
}

/** How many of these claims are granted. A stranger's fits beside nobody, whatever the capacity. */
export function grantedOf(claims: readonly ListedClaim[], capacity: number): number {
  const [first] = claims;
  return first !== undefined && first.capacity === undefined ? 1 : admit(claims, capacity);
}

/** The capacity that is in force, if anybody but strangers is there. */
export function capacityOf(claims: readonly ListedClaim[]): number | undefined {
  return claims.find(({ capacity }) => capacity !== undefined)?.capacity;
}
