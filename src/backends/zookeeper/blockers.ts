import { worthWatching } from "../../core/claim.js";
import { unless } from "./errors.js";
import type { ListedClaim } from "./names.js";
import { ERROR, getData } from "./protocol.js";
import type { Session } from "./session.js";

interface Newcomer {
  readonly parent: string;
  readonly weight: number;
  readonly capacity: number;
}

export interface Blocked {
  readonly blockers: readonly ListedClaim[];
  stop(): void;
}

/**
 * Who of those ahead is in the way, and a watch on each of them, which rings when it is gone. Looked at with
 * getData, because a watch of exists would stay behind at a node that is gone already. Nodes that belong to no
 * session are nobody's claims; only one that would be in the way is asked for that.
 */
export async function watchBlockers(
  session: Session,
  { parent, weight, capacity }: Newcomer,
  ahead: readonly ListedClaim[],
  ring?: () => void,
): Promise<Blocked> {
  let left = ahead;
  for (;;) {
    const blockers = worthWatching(left, weight, capacity);
    // Without a ring nobody waits, and what is ours is known to be a claim.
    const unsure = ring === undefined ? blockers.filter((claim) => claim.capacity === undefined) : blockers;
    const stops: (() => void)[] = [];
    const stop = () => {
      for (const one of stops) one();
    };
    const looks = unsure.map(async (claim) => {
      const path = `${parent}/${claim.node}`;
      const watch = ring === undefined ? undefined : watchUntilDeleted(session, path, ring);
      if (watch !== undefined) stops.push(() => watch.stop());
      return { claim, stands: await (watch?.stands ?? stands(session, path, false)) };
    });
    let looked: { readonly claim: ListedClaim; readonly stands: boolean }[];
    try {
      looked = await Promise.all(looks);
    } catch (error) {
      stop();
      throw error;
    }
    const fallen = new Set(looked.flatMap((one) => (one.stands ? [] : [one.claim])));
    if (fallen.size === 0) return { blockers, stop };
    stop();
    left = left.filter((claim) => !fallen.has(claim));
  }
}

/** Changes of what is written there are no news; the watch is set anew. */
function watchUntilDeleted(session: Session, path: string, ring: () => void) {
  let stop = () => {};
  let stopped = false;
  const set = () => {
    stop = session.client.watch(path, (deleted) => {
      if (stopped) return;
      if (deleted) ring();
      // If the connection breaks, everybody is rung once it stands again.
      else
        set().then(
          (standing) => standing || stopped || ring(),
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
  const read = await session.client.send(getData(path, watch)).catch(unless(ERROR.noNode));
  return read !== undefined && read.stat.ephemeralOwner !== 0n;
}
