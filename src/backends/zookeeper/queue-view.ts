import { worthWatching } from "../../core/claim.js";
import type { Blockers } from "../session-queue/backend.js";
import { unless } from "./errors.js";
import { type ListedNode, numbersAreUsedUp, readClaims } from "./keys.js";
import { ERROR, getChildren, sync } from "./messages.js";
import type { Session } from "./session.js";

/**
 * Reads queues. A caller gets the answer to a request that was sent after its call, so it sees what it has itself
 * sent before; callers that come while one is under way share the next.
 */
export class QueueViews {
  readonly #session: Session;
  readonly #running = new Map<string, Promise<readonly ListedNode[]>>();
  readonly #next = new Map<string, Promise<readonly ListedNode[]>>();

  constructor(session: Session) {
    this.#session = session;
  }

  read(parent: string): Promise<readonly ListedNode[]> {
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

  /** What other processes have done before this, too: their servers may be ahead of ours. */
  async latest(parent: string): Promise<readonly ListedNode[]> {
    const syncing = this.#session.client.send(sync(parent));
    const [, queue] = await Promise.all([syncing, this.#list(parent)]);
    return queue;
  }

  /** Tells of the next claim that comes or goes there. */
  watched(parent: string): Promise<readonly ListedNode[]> {
    return this.#list(parent, true);
  }

  #start(parent: string): Promise<readonly ListedNode[]> {
    const reading = this.#list(parent).finally(() => this.#running.delete(parent));
    this.#running.set(parent, reading);
    return reading;
  }

  async #list(parent: string, watch = false): Promise<readonly ListedNode[]> {
    const nodes = await this.#session.client.send(getChildren(parent, watch)).catch(unless(ERROR.noNode));
    const claims = readClaims(nodes ?? []);
    return numbersAreUsedUp(claims) ? this.#byCreation(parent, claims) : claims;
  }

  /** At the price of one more request per claim, until the name is free for a while and its node begins anew. */
  async #byCreation(parent: string, claims: readonly ListedNode[]): Promise<readonly ListedNode[]> {
    const looks = claims.map(async (claim) => {
      const read = await this.#session.find(`${parent}/${claim.node}`);
      return read === undefined ? [] : [{ claim, czxid: read.stat.czxid }];
    });
    const standing = (await Promise.all(looks)).flat();
    return standing.sort((a, b) => Number(a.czxid - b.czxid)).map(({ claim }) => claim);
  }
}

/** The first position of each claim in a queue; made once for all claims of this process in it. */
const positions = new WeakMap<readonly ListedNode[], ReadonlyMap<string, number>>();

function positionOf(queue: readonly ListedNode[], id: string): number | undefined {
  let known = positions.get(queue);
  if (known === undefined) {
    // From the end, so that of several with one id the first stays.
    known = new Map(queue.map((claim, at) => [claim.id, at] as const).reverse());
    positions.set(queue, known);
  }
  return known.get(id);
}

/**
 * The claims before one; `undefined` if it is not in the queue itself. Its orphans were made by a session of before,
 * which we have given up and the servers not yet.
 */
export function aheadOf(
  queue: readonly ListedNode[],
  { id, node }: { readonly id: string; readonly node: string | undefined },
): { readonly ahead: readonly ListedNode[]; readonly orphans: readonly ListedNode[] } | undefined {
  const first = positionOf(queue, id);
  if (first === undefined) return undefined;
  if (queue[first]?.node === node) return { ahead: queue.slice(0, first), orphans: [] };
  const at = queue.findIndex((claim) => claim.node === node);
  if (at === -1) return undefined;
  const ahead = queue.slice(0, at);
  return {
    ahead: ahead.filter((claim) => claim.id !== id),
    orphans: ahead.filter((claim) => claim.id === id),
  };
}

interface Newcomer {
  readonly parent: string;
  readonly weight: number;
  readonly capacity: number;
}

/**
 * Which of the claims ahead are in the way, and a watch on each of them, which notifies when it is gone. Looked at
 * with getData, because a watch of exists would stay behind at a node that is gone already. Nodes that belong to no
 * session are no claims; only one that would be in the way is asked for that.
 */
export async function watchBlockers(
  session: Session,
  { parent, weight, capacity }: Newcomer,
  ahead: readonly ListedNode[],
  notify?: () => void,
): Promise<Blockers<ListedNode>> {
  let left = ahead;
  for (;;) {
    const blockers = worthWatching(left, weight, capacity);
    // Without a callback no claim waits, and a node of ours is known to be a claim.
    const unsure = notify === undefined ? blockers.filter((claim) => claim.capacity === undefined) : blockers;
    const stops: (() => void)[] = [];
    const stop = () => {
      for (const one of stops) one();
    };
    const looks = unsure.map(async (claim) => {
      const path = `${parent}/${claim.node}`;
      const watch = notify === undefined ? undefined : watchUntilDeleted(session, path, notify);
      if (watch !== undefined) stops.push(() => watch.stop());
      return { claim, stands: await (watch?.stands ?? stands(session, path, false)) };
    });
    let looked: { readonly claim: ListedNode; readonly stands: boolean }[];
    try {
      looked = await Promise.all(looks);
    } catch (error) {
      stop();
      throw error;
    }
    const fallen = new Set(looked.flatMap((one) => (one.stands ? [] : [one.claim])));
    if (fallen.size === 0) return { blockers, unwatch: stop };
    stop();
    left = left.filter((claim) => !fallen.has(claim));
  }
}

/** Changes of what is written there are no news; the watch is set anew. */
function watchUntilDeleted(session: Session, path: string, notify: () => void) {
  let stop = () => {};
  let stopped = false;
  const set = () => {
    stop = session.client.watch(path, (deleted) => {
      if (stopped) return;
      if (deleted) notify();
      // If the connection breaks, all waiters are notified once it stands again.
      else
        set().then(
          (standing) => standing || stopped || notify(),
          () => undefined,
        );
    });
    return stands(session, path, true);
  };
  return {
    stands: set(),
    stop: () => {
      stopped = true;
      stop();
    },
  };
}

async function stands(session: Session, path: string, watch: boolean): Promise<boolean> {
  const read = await session.find(path, watch);
  return read !== undefined && read.stat.ephemeralOwner !== 0n;
}
