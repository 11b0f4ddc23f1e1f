import { type OwnClaims, saysWanted, withWanted } from "../session-queue/claims.js";
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
  readonly #claims: OwnClaims<ZooKeeperClaim>;
  readonly #onWanted: () => void;
  #stops: readonly (() => void)[] = [];
  #stopped = false;

  constructor(claim: ZooKeeperClaim, claims: OwnClaims<ZooKeeperClaim>, onWanted: () => void) {
    this.#claim = claim;
    this.#claims = claims;
    this.#onWanted = onWanted;
  }

  /** Sets the watches, and says whether it is wanted already. */
  look(): Promise<boolean> {
    const { session, parent, path } = this.#claim;
    this.#unwatch();
    const again = () => this.lookAgain();
    this.#stops = [parent, path].map((watched) => session.client.watch(watched, again));
    return this.#read(session.queues.watched(parent), true);
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

  /** For a renewal, without the watches. */
  isWanted(): Promise<boolean> {
    const { session, parent } = this.#claim;
    return this.#read(session.queues.read(parent), false);
  }

  stop(): void {
    this.#stopped = true;
    this.#unwatch();
  }

  /** What its own connection does at that name wants nothing of it. If its node is gone, a renewal tells why. */
  async #read(reading: Promise<readonly ListedNode[]>, watch: boolean): Promise<boolean> {
    const { session, path, node } = this.#claim;
    const [queue, own] = await Promise.all([reading, session.find(path, watch)]);
    if (own === undefined) return false;
    const at = queue.findIndex((claim) => claim.node === node);
    return saysWanted(own.data) || this.#claims.hasOthers(queue.slice(at + 1));
  }

  #unwatch(): void {
    for (const stop of this.#stops) stop();
  }
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
