import type { Answer, ClaimRequest } from "../../core/backend.js";
import { backendError } from "../../core/errors.js";
import { watchBlockers } from "./blockers.js";
import { isRefusal, refusal, refusalCode } from "./errors.js";
import type { ListedClaim } from "./names.js";
import type { OwnClaim } from "./own-claim.js";
import { type Acl, type Created, create, ERROR, getData, MODE, multi } from "./protocol.js";
import { capacityOf, grantedOf } from "./queue-view.js";

export type Refusal = Extract<Answer, { state: "refused" | "queue-full" | "capacity-mismatch" }>;

const NOTHING = Buffer.alloc(0);
const MOST_ATTEMPTS = 20;
const MOST_PARENTS = 10_000;

/** May somebody stand behind these? Whoever only tries, or fears a long queue, looks before and after coming. */
export async function refusalBehind(
  ownClaim: OwnClaim,
  { queue, maxWaiters }: ClaimRequest,
  ahead: readonly ListedClaim[],
): Promise<Refusal | undefined> {
  const inForce = capacityOf(ahead);
  if (inForce !== undefined && inForce !== ownClaim.capacity) {
    return { state: "capacity-mismatch", capacity: inForce };
  }
  if (queue && maxWaiters === undefined) return undefined;
  const { blockers } = await watchBlockers(ownClaim.session, ownClaim, ahead);
  if (blockers.length === 0) return undefined;
  if (!queue) return { state: "refused" };
  const waiters = ahead.length - grantedOf(ahead, ownClaim.capacity);
  return waiters < (maxWaiters ?? Infinity) ? undefined : { state: "queue-full", waiters };
}

/** Makes the nodes of claims, and remembers which names have a node already. */
export class CreateClaim {
  readonly #acl: readonly Acl[];
  readonly #parents = new Set<string>();

  constructor(acl: readonly Acl[]) {
    this.#acl = acl;
  }

  /** Creates the node, and reads who is in line then: two requests that are sent together. */
  async come(ownClaim: OwnClaim, value: Buffer): Promise<readonly ListedClaim[]> {
    const { session, parent } = ownClaim;
    await session.prepare();
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      // Until it is answered it may come true, and if it is never answered, it may have.
      ownClaim.doubtful = true;
      const creating = this.#parents.has(parent)
        ? this.#create(ownClaim, value)
        : this.#createBoth(ownClaim, value);
      const reading = session.queues.read(parent);
      creating.catch((error: unknown) => {
        // A server that has said no has not done it.
        if (refusalCode(error) !== undefined) ownClaim.doubtful = false;
      });
      const [created, line] = await Promise.all([creating, reading]);
      ownClaim.doubtful = false;
      if (created === undefined) continue;
      this.#remember(parent);
      ownClaim.node = created.path.slice(parent.length + 1);
      ownClaim.ticket = created.stat.czxid;
      ownClaim.written = value;
      return line;
    }
    throw backendError("the node of this name comes and goes too fast.", { retryable: true });
  }

  /**
   * Looks for the node of a request that was not answered. The session has been connected anew since then, so it
   * was executed or never will be; and a write that goes out now is ordered after it, also for what we read.
   */
  async find(ownClaim: OwnClaim): Promise<boolean> {
    const { session, parent } = ownClaim;
    await session.beat();
    const line = await session.queues.read(parent);
    const own = line.find(({ id }) => id === ownClaim.id);
    if (own !== undefined) {
      const { stat } = await session.client.send(getData(`${parent}/${own.node}`, false));
      ownClaim.node = own.node;
      ownClaim.ticket = stat.czxid;
    }
    ownClaim.doubtful = false;
    return own !== undefined;
  }

  #node(ownClaim: OwnClaim, value: Buffer) {
    return create(ownClaim.creation, value, this.#acl, MODE.ephemeralSequential);
  }

  async #create(ownClaim: OwnClaim, value: Buffer): Promise<Created | undefined> {
    try {
      return await ownClaim.session.client.send(this.#node(ownClaim, value));
    } catch (error) {
      if (!isRefusal(error, ERROR.noNode)) throw error;
      // Containers vanish when they were empty for a while.
      this.#parents.delete(ownClaim.parent);
      return undefined;
    }
  }

  /** The name's container and the claim in it, or neither. */
  async #createBoth(ownClaim: OwnClaim, value: Buffer): Promise<Created | undefined> {
    const { session, parent } = ownClaim;
    const container = create(parent, NOTHING, this.#acl, MODE.container);
    const [made, claim] = await session.client.send(multi([container, this.#node(ownClaim, value)]));
    // Of the second part only the path is told; but all parts are one change, and have its number.
    if (made?.created !== undefined && claim?.path !== undefined) {
      return { path: claim.path, stat: made.created.stat };
    }
    const code = made?.error || claim?.error || ERROR.connectionLoss;
    if (code === ERROR.nodeExists) this.#remember(parent);
    else if (code === ERROR.noNode) await session.makeRoot();
    else throw refusal(code, parent);
    return undefined;
  }

  #remember(parent: string): void {
    this.#parents.delete(parent);
    this.#parents.add(parent);
    const [oldest] = this.#parents;
    if (this.#parents.size > MOST_PARENTS && oldest !== undefined) this.#parents.delete(oldest);
  }
}
