import type { ClaimRequest, Force, Gone } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import { forceIn, metadataOf, parsed, readMetadata } from "../../engine-kit/replies.js";
import { OwnClaim } from "../session-queue/claims.js";
import { refusal, refusalCode, unless } from "./errors.js";
import { claimNode, encodeName, type ListedNode } from "./keys.js";
import { type Created, create, ERROR, getData, MODE, multi, remove, setData } from "./messages.js";
import type { ZooKeeperSettings } from "./options.js";
import { noticePrefix, type Session } from "./session.js";
import type { WantedWatch } from "./sticky.js";

export function parentOf(root: string, name: string): string {
  return `${root}/${encodeName(name)}`;
}

/**
 * How long a session has to last for this claim. It is trusted for two thirds of its timeout after a write: a
 * claim that is renewed has those anew with every renewal. A fixed one has to do with the write at its grant. For
 * `minHold` the node has to stay for that long even if the process dies right after the grant.
 */
export function sessionFor({ ttlMs, fixed, minHoldMs }: ClaimRequest): number {
  return Math.max(fixed ? ttlMs * 1.5 : ttlMs, minHoldMs * 1.5);
}

export class ZooKeeperClaim extends OwnClaim {
  readonly parent: string;
  /** The name of its node, as soon as that is known. */
  node: string | undefined;
  /** Tells whether another process wants it; `undefined` if it need not be told. */
  wantedWatch: WantedWatch | undefined;
  readonly #cameMs = nowMs();
  #endsMs = Infinity;

  constructor(
    root: string,
    request: ClaimRequest,
    readonly session: Session,
  ) {
    super(request);
    this.parent = parentOf(root, request.name);
  }

  get path(): string {
    return `${this.parent}/${this.node}`;
  }

  remainingMs(askedMs: number, atMostMs = Infinity): number {
    const untilMs = Math.min(this.session.client.trustedUntilMs, this.#endsMs);
    return Math.min(Math.max(0, untilMs - askedMs), atMostMs);
  }

  grant(ttlMs: number): void {
    this.grantedAtMs = nowMs();
    if (this.fixed) this.#endsMs = this.grantedAtMs + Math.max(ttlMs, this.minHoldMs);
  }

  /**
   * What is to be shown of it: also how long its session lasts without being heard of, and how many milliseconds after
   * it was made it was granted. Releases before look for `bell` to tell that they have taken the claim away.
   */
  value(request: ClaimRequest): Buffer {
    const { grantedAtMs, session } = this;
    const { noticePath: notify, client } = session;
    const ttl = client.timeoutMs;
    const shown = this.waited && grantedAtMs !== undefined;
    const granted = shown ? Math.round(grantedAtMs - this.#cameMs) : undefined;
    return Buffer.from(JSON.stringify({ ...metadataOf(request), notify, bell: notify, ttl, granted }));
  }
}

const NOTHING = Buffer.alloc(0);
const MOST_ATTEMPTS = 20;
const MOST_PARENTS = 10_000;

/** Makes the nodes of claims, and remembers which names have a node already. */
export class CreateClaim {
  readonly #settings: ZooKeeperSettings;
  readonly #parents = new Set<string>();

  constructor(settings: ZooKeeperSettings) {
    this.#settings = settings;
  }

  /** Creates the node, and reads the queue after it: two requests that are sent together. */
  async create(claim: ZooKeeperClaim, value: Buffer): Promise<readonly ListedNode[]> {
    const { session, parent } = claim;
    const preparing = session.prepare();
    if (preparing !== undefined) await preparing;
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      // Until it is answered it may come true, and if it is never answered, it may have.
      claim.doubtful = true;
      const creating = this.#parents.has(parent)
        ? this.#create(claim, value)
        : this.#createBoth(claim, value);
      const reading = session.queues.read(parent);
      creating.catch((error: unknown) => {
        // A server that refuses a request has not executed it.
        if (refusalCode(error) !== undefined) claim.doubtful = false;
      });
      const [created, queue] = await Promise.all([creating, reading]);
      claim.doubtful = false;
      if (created === undefined) continue;
      this.#remember(parent);
      claim.node = created.path.slice(parent.length + 1);
      claim.ticket = created.stat.czxid;
      claim.written = value;
      return queue;
    }
    throw backendError("the node of this name comes and goes too fast.", { retryable: true });
  }

  /**
   * Looks for the node of a request that was not answered. The session has been connected anew since then, so it
   * was executed or never will be; and a write that goes out now is ordered after it, also for what we read.
   */
  async find(claim: ZooKeeperClaim): Promise<boolean> {
    const { session, parent } = claim;
    await session.beat();
    const queue = await session.queues.read(parent);
    const own = queue.find(({ id }) => id === claim.id);
    if (own !== undefined) {
      const { stat } = await session.client.send(getData(`${parent}/${own.node}`));
      claim.node = own.node;
      claim.ticket = stat.czxid;
    }
    claim.doubtful = false;
    return own !== undefined;
  }

  /** The servers add its sequence to the path. */
  #node(claim: ZooKeeperClaim, value: Buffer) {
    const path = `${claim.parent}/${claimNode(claim)}`;
    return create(path, value, this.#settings.acl, MODE.ephemeralSequential);
  }

  async #create(claim: ZooKeeperClaim, value: Buffer): Promise<Created | undefined> {
    const created = await claim.session.client.send(this.#node(claim, value)).catch(unless(ERROR.noNode));
    // Containers vanish when they were empty for a while.
    if (created === undefined) this.#parents.delete(claim.parent);
    return created;
  }

  /** The name's container and the claim in it, or neither. */
  async #createBoth(claim: ZooKeeperClaim, value: Buffer): Promise<Created | undefined> {
    const { session, parent } = claim;
    const container = create(parent, NOTHING, this.#settings.acl, MODE.container);
    const [made, added] = await session.client.send(multi([container, this.#node(claim, value)]));
    // Of the second part only the path is told; but all parts are one change, and have its number.
    if (made?.stat !== undefined && added?.path !== undefined) return { path: added.path, stat: made.stat };
    const code = made?.error || added?.error || ERROR.connectionLoss;
    if (code === ERROR.nodeExists) this.#remember(parent);
    else if (code === ERROR.noNode) await session.make(this.#settings.root);
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

/** How long a claim that is gone can still learn why. */
const KEPT_MS = 60_000;
/** The newest ones are kept; a process that has not read one by then learns only that its claim is gone. */
const MOST_NOTICES = 50;

interface Notice extends Partial<Force> {
  readonly id: string;
}

/** Why claims of ours are gone: as other processes wrote it into our nodes for notices, and what became of our sessions. */
export class GoneReasons {
  readonly #byId = new Map<string, { readonly gone: Gone; readonly untilMs: number }>();
  readonly #onForced: (id: string, gone: Gone) => void;

  constructor(onForced: (id: string, gone: Gone) => void) {
    this.#onForced = onForced;
  }

  add(id: string, gone: Gone): void {
    const atMs = nowMs();
    // The oldest come first.
    for (const [old, { untilMs }] of this.#byId) {
      if (untilMs > atMs) break;
      this.#byId.delete(old);
    }
    this.#byId.set(id, { gone, untilMs: atMs + KEPT_MS });
  }

  of(id: string): Gone | undefined {
    return this.#byId.get(id)?.gone;
  }

  /** Reads the notices for a session; what is new is told. */
  async read(session: Session): Promise<void> {
    for (const { id, ...force } of parseNotices(await session.readNotices())) {
      if (this.#byId.has(id)) continue;
      const gone: Gone = { state: "gone", loss: "forced", ...forceIn(force) };
      this.add(id, gone);
      this.#onForced(id, gone);
    }
  }
}

/** Takes a claim away, and writes a notice for its process in the same step. */
export async function takeAway(
  session: Session,
  root: string,
  claim: { readonly name: string; readonly id: string },
  force: Force,
): Promise<boolean> {
  const { client, queues } = session;
  const parent = parentOf(root, claim.name);
  const victim = (await queues.latest(parent)).find(({ id }) => id === claim.id);
  if (victim === undefined) return false;
  const path = `${parent}/${victim.node}`;
  const read = await session.find(path);
  if (read === undefined) return false;
  const { notify } = readMetadata(parsed(read.data.toString()));
  // A program that may make a claim must not have us write elsewhere, where we may be allowed to and it is not.
  const noticePath = notify?.startsWith(noticePrefix(root)) ? notify : undefined;
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const found = noticePath && (await session.find(noticePath));
    if (!noticePath || !found) return session.remove(path);
    const notice: Notice = { id: claim.id, ...force };
    const data = Buffer.from(JSON.stringify([...parseNotices(found.data), notice].slice(-MOST_NOTICES)));
    const telling = setData(noticePath, data, found.stat.version);
    const [told, removed] = await client.send(multi([telling, remove(path)]));
    if (removed?.error === 0) return true;
    if (removed?.error === ERROR.noNode) return false;
    // Another process has written a notice meanwhile, or the process of the claim is gone.
    const code = told?.error ?? ERROR.connectionLoss;
    if (code !== ERROR.badVersion && code !== ERROR.noNode) throw refusal(code, noticePath);
  }
  throw backendError(`too many processes take away "${claim.name}" at once.`, {
    name: claim.name,
    retryable: true,
  });
}

function parseNotices(data: Buffer): readonly Notice[] {
  const notices = parsed(data.toString());
  return Array.isArray(notices) ? notices.filter((notice) => typeof notice?.id === "string") : [];
}
