import type { ClaimRequest, Force, Gone } from "../../core/backend.js";
import { nowMs, restMs, type Sent } from "../../core/clock.js";
import { forceIn, forceText, metadataOf, parsed, readMetadata } from "../../engine-kit/replies.js";
import { type Entry, type Refusal, refusalOf } from "../session-queue/backend.js";
import { OwnClaim } from "../session-queue/claims.js";
import type { EtcdDriver } from "./driver.js";
import {
  claimKey,
  emptySince,
  forcedKey,
  forcedKeys,
  isEmpty,
  isStill,
  type ListedKey,
  QueueKeys,
} from "./keys.js";
import { type Compare, type Long, notEtcd, type TxnResponse } from "./messages.js";
import type { EtcdRpc } from "./rpc.js";
import type { Session } from "./session.js";

export class EtcdClaim extends OwnClaim {
  readonly queue: QueueKeys;
  readonly key: Buffer;
  readonly #came = Date.now();
  #grantedWall: number | undefined;
  /** When we heard that it is there, or was moved to this session. */
  madeMs = -Infinity;
  /** The lease that keeps it in place of the session, for its fixed or its minimal time. */
  ownLease: { readonly id: Long; readonly sent: Sent; readonly lengthMs: number } | undefined;

  constructor(
    root: string,
    request: ClaimRequest,
    public session: Session,
  ) {
    super(request);
    this.queue = new QueueKeys(root, request.name);
    this.key = claimKey(root, request, session.lease);
  }

  remainingMs(): number {
    const { ownLease, session } = this;
    return ownLease === undefined ? session.remainingMs() : restMs(ownLease.sent, ownLease.lengthMs);
  }

  /** From here on, no request to make it that was sent before comes true. */
  async cancelPending(): Promise<void> {
    if (this.doubtful) await this.session.cancelPending();
    this.doubtful = false;
  }

  grant(atMs: number): void {
    this.grantedAtMs = atMs;
    this.#grantedWall = Date.now();
  }

  /**
   * What is to be shown of it; `isGranted` as of now, if it was not before. The times are of this machine's wall clock.
   * Releases before look for `bell` to tell that they have taken the claim away.
   */
  value(request: ClaimRequest, notify: string, isGranted = false): Buffer {
    const granted = this.#grantedWall ?? (isGranted ? Date.now() : undefined);
    const own = { notify, bell: notify, came: this.#came, granted };
    return Buffer.from(JSON.stringify({ ...metadataOf(request), ...own }));
  }
}

/** After so many lost races a claim that only tries is written all the same, and removed again if it is not granted. */
const MOST_RACES = 3;

/** One attempt to write a claim, and to read the claims ahead of it in the same step. */
export async function enterQueue(
  driver: EtcdDriver,
  claim: EtcdClaim,
  request: ClaimRequest,
  attempt: number,
): Promise<Entry<ListedKey>> {
  const { rpc, connectionId } = driver;
  // An exclusive claim that does not count waiters needs to know only the nearest claim.
  const whole = !claim.exclusive || request.maxWaiters !== undefined;
  const guard = await mayEnter(driver, claim, request, attempt);
  if ("state" in guard) return guard;
  const value = claim.value(request, connectionId);
  const { succeeded, responses, header } = await write(rpc, claim, guard, value, whole);
  if (!succeeded) {
    const [session, first] = responses;
    if (claim.session.learn(session?.response_range) || request.queue) return { state: "raced" };
    const claims = claim.queue.read(first?.response_range);
    if (claims[0]?.id === claim.id) return known(claim, claims[0].ticket);
    // An empty queue means that the claims of before have left.
    if (claims.length === 0 || !claim.exclusive) return { state: "raced" };
    return (await refusalOf(driver, claim, request, claims)) ?? { state: "raced" };
  }
  const [, own, read] = responses;
  const [kv] = own?.response_range?.kvs ?? [];
  // What was just written is there, and in the queue: else nothing of this answer can be relied on.
  const seen = claim.queue.read(read?.response_range);
  const at = seen.findIndex(({ id }) => id === claim.id);
  if (kv === undefined || seen.length === 0 || (whole && at === -1)) throw notEtcd();
  const entry = known(claim, BigInt(kv.create_revision));
  watchNotices(driver, header.revision);
  // Of a claim that was there already, from an earlier request, the newest two do not tell which are ahead.
  if (!whole && at !== seen.length - 1) return entry;
  return { state: "entered", ahead: seen.slice(0, at), revision: kv.mod_revision };
}

function known(claim: EtcdClaim, ticket: bigint): { readonly state: "known" } {
  claim.ticket = ticket;
  claim.madeMs = nowMs();
  return { state: "known" };
}

/**
 * Why the claim is refused, or the conditions under which it may be written.
 * A claim that may wait is just written: the answer tells which claims are ahead. An exclusive claim that only tries
 * is written if the queue is empty; one that may fit beside others looks first, and is written on the condition that
 * no claim was added since.
 */
async function mayEnter(
  driver: EtcdDriver,
  claim: EtcdClaim,
  request: ClaimRequest,
  racesLost: number,
): Promise<Refusal | readonly Compare[]> {
  const { queue, exclusive } = claim;
  const { queue: mayWait, maxWaiters } = request;
  if (mayWait && maxWaiters === undefined) return [];
  if (exclusive && !mayWait) return [isEmpty(queue.range)];
  const seen = await driver.rpc.range(queue.all());
  const claims = queue.read(seen);
  // An earlier request of ours, which was not answered, has made it already.
  if (claims.some(({ id }) => id === claim.id)) return [];
  const refusal = await refusalOf(driver, claim, request, claims);
  if (refusal !== undefined) return refusal;
  return mayWait || racesLost >= MOST_RACES ? [] : [emptySince(queue.range, seen.header.revision)];
}

/** Writes the claim, if nothing has changed that must not. */
async function write(
  rpc: EtcdRpc,
  claim: EtcdClaim,
  guard: readonly Compare[],
  value: Buffer,
  whole: boolean,
): Promise<TxnResponse> {
  const { key, session, queue } = claim;
  // Until it is answered, it may come true at any time; an earlier one that was not answered still may.
  const { doubtful } = claim;
  claim.doubtful = true;
  const answer = await rpc.txn({
    compare: [session.unchanged(), ...guard],
    success: [
      { request_put: { key, value, lease: session.lease } },
      { request_range: { key, keys_only: true } },
      { request_range: whole ? queue.all() : queue.newestTwo() },
    ],
    failure: [{ request_range: { key: session.key } }, { request_range: queue.first() }],
  });
  claim.doubtful = doubtful;
  claim.written = value;
  return answer;
}

// A process that takes a claim away writes a notice for the one that has made it, under a prefix that the latter
// watches: one watch for all claims of a connection.

/** How long a claim that was taken away can still learn why. */
const FORCED_KEPT_S = 60;

/** From the revision of the first claim on; no notice can have been written before it. */
function watchNotices(driver: EtcdDriver, revision: Long): void {
  if (driver.watchesNotices) return;
  driver.watchesNotices = true;
  const range = forcedKeys(driver.root, driver.connectionId);
  driver.watcher.watch({
    ...range,
    from: BigInt(revision),
    on: (event) => {
      if (event === undefined) driver.watchesNotices = false;
      else if (!event.deleted) {
        const id = event.kv.key.subarray(range.key.length).toString();
        driver.claims.lost(id, readForce(event.kv.value));
      }
    },
  });
}

export async function goneOf({ rpc, root, connectionId }: EtcdDriver, id: string): Promise<Gone> {
  const { kvs } = await rpc.range({ key: forcedKey(root, connectionId, id) });
  const [notice] = kvs;
  return notice === undefined ? { state: "gone", loss: "taken" } : readForce(notice.value);
}

export async function takeAway(
  { rpc, root }: EtcdDriver,
  { name, id }: { readonly name: string; readonly id: string },
  force: Force,
): Promise<boolean> {
  const queue = new QueueKeys(root, name);
  const claims = queue.read(await rpc.range({ ...queue.all(), keys_only: false }));
  const victim = claims.find((claim) => claim.id === id);
  if (victim === undefined) return false;
  const { key } = victim.kv;
  const { notify } = readMetadata(parsed(victim.kv.value.toString()));
  const compare = [isStill(key, victim.ticket)];
  const success = [{ request_delete_range: { key } }];
  if (notify === undefined) return (await rpc.txn({ compare, success })).succeeded;
  const { ID: lease } = await rpc.grantLease(FORCED_KEPT_S);
  const value = Buffer.from(forceText(force));
  const notice = { request_put: { key: forcedKey(root, notify, id), value, lease } };
  const { succeeded } = await rpc.txn({ compare, success: [...success, notice] });
  if (!succeeded) rpc.revokeLease(lease).catch(() => undefined);
  return succeeded;
}

/** Any process that may write there can write anything; it is read where an error would end the process. */
function readForce(value: Buffer): Gone {
  return { state: "gone", loss: "forced", ...forceIn(parsed(value.toString())) };
}
