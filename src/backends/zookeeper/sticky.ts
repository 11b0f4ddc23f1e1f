import { saysWanted, withWanted } from "../session-queue/claims.js";
import type { ZooKeeperClaim } from "./claim.js";
import { unless } from "./errors.js";
import type { ListedNode } from "./keys.js";
import { ERROR, setData } from "./messages.js";
import type { Session } from "./session.js";

// A sticky claim may stay with its process, as long as no other process wants the lock. Its process watches the children
// of the name, where a claim comes behind it, and the own node, to which a try writes that is refused.

const MOST_ATTEMPTS = 3;

export class WantedWatch {
  readonly #claim: ZooKeeperClaim;
  readonly #onWanted: () => void;
  #stops: readonly (() => void)[] = [];
  #stopped = false;

  constructor(claim: ZooKeeperClaim, onWanted: () => void) {
    this.#claim = claim;
    this.#onWanted = onWanted;
  }

  /** Sets the watches, and says whether it is wanted already. What its own process writes to the node wants nothing. */
  async look(): Promise<boolean> {
    const { session, parent, path } = this.#claim;
    this.#unwatch();
    const again = () => this.lookAgain();
    this.#stops = [parent, path].map((watched) => session.client.watch(watched, again));
    const [queue, own] = await Promise.all([session.queues.watched(parent), session.find(path, true)]);
    // If its node is gone, a renewal tells why.
    return own !== undefined && (saysWanted(own.data) || hasClaimsBehind(queue, this.#claim));
  }

  /** Something has changed, or the watches are gone with their connection. */
  lookAgain(): void {
    if (this.#stopped) return;
    this.look().then(
      (wanted) => wanted && this.#onWanted(),
      // It cannot be told any more.
      () => this.#onWanted(),
    );
  }

  stop(): void {
    this.#stopped = true;
    this.#unwatch();
  }

  #unwatch(): void {
    for (const stop of this.#stops) stop();
  }
}

export function hasClaimsBehind(queue: readonly ListedNode[], { node }: ZooKeeperClaim): boolean {
  return queue.length > 1 && queue.at(-1)?.node !== node;
}

/** Unless it was told already, or its node changes at the same time, again and again. */
export async function tellWanted(session: Session, path: string): Promise<void> {
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const found = await session.find(path);
    const data = found && withWanted(found.data);
    if (found === undefined || data === undefined) return;
    const writing = session.client.send(setData(path, data, found.stat.version));
    if ((await writing.catch(unless(ERROR.badVersion, ERROR.noNode))) !== undefined) return;
  }
}
