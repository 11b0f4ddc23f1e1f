import { nowMs, restMs, type Sent, sendingNow } from "../../core/clock.js";
import { SingleFlight } from "../../core/concurrency.js";
import { backendError } from "../../core/errors.js";
import { sessionKey } from "./keys.js";
import { type Compare, EQUAL, type Long, type RangeResponse, TARGET } from "./messages.js";
import type { EtcdRpc } from "./rpc.js";

const MOST_ELECTIONS = 3;
const MOST_SESSIONS = 3;

/** A key as a text that is cheap to compare. */
export function textOf(key: Buffer): string {
  return key.toString("latin1");
}

/**
 * A lease of etcd that all claims of one ttl share, and a key of its own that lives as long. Claims are made
 * only while that key has the value that we know: so a request whose fate is unknown can be called off by
 * changing it, however late the request is delivered.
 */
export class Session {
  readonly ttlMs: number;
  readonly key: Buffer;
  /** The last sending that showed that it is alive: it may be trusted for its ttl from then. */
  #proven: Sent;
  #epoch = 0;
  #gone = false;
  readonly #refreshing = new SingleFlight<ReadonlySet<string> | undefined>();
  #counting:
    | { readonly sinceMs: number; readonly keys: Promise<ReadonlySet<string> | undefined> }
    | undefined;
  readonly #cancelling = new SingleFlight<void>();

  private constructor(
    private readonly rpc: EtcdRpc,
    root: string,
    readonly lease: Long,
    ttlS: number,
    sent: Sent,
  ) {
    this.ttlMs = ttlS * 1_000;
    this.key = sessionKey(root, lease);
    this.#proven = sent;
  }

  static async open(rpc: EtcdRpc, root: string, ttlS: number): Promise<Session> {
    const sent = sendingNow();
    // The servers may give more than was asked for.
    const { ID, TTL } = await rpc.grantLease(ttlS);
    const session = new Session(rpc, root, ID, Number(TTL), sent);
    await rpc.txn({ success: [{ request_put: { key: session.key, value: session.#value(), lease: ID } }] });
    return session;
  }

  get gone(): boolean {
    return this.#gone;
  }

  remainingMs(): number {
    return this.#gone ? 0 : restMs(this.#proven, this.ttlMs);
  }

  /** A condition for requests that must not come true once they were called off. */
  unchanged(): Compare {
    return { key: this.key, target: TARGET.value, result: EQUAL, value: this.#value() };
  }

  /**
   * Refreshes the session, and tells which keys it keeps; `undefined` if it is gone. Claims that ask
   * at the same time share it, but no claim is told of a look that began before its own key was made.
   */
  async inventory(madeMs: number): Promise<ReadonlySet<string> | undefined> {
    while (this.#counting !== undefined && this.#counting.sinceMs <= madeMs) {
      await this.#counting.keys.catch(() => undefined);
    }
    this.#counting ??= {
      sinceMs: nowMs(),
      keys: this.#refresh(true).finally(() => {
        this.#counting = undefined;
      }),
    };
    return this.#counting.keys;
  }

  /** Says whether it is still there. */
  async refresh(): Promise<boolean> {
    if (this.#counting !== undefined) return (await this.#counting.keys) !== undefined;
    return (await this.#refreshing.run(() => this.#refresh(false))) !== undefined;
  }

  /**
   * A leader that was stopped and resumed answers keep-alives, and questions about leases, though they are long
   * gone. What it says counts only if a read that all members agree on was sent after it and shows the same term
   * of office.
   */
  async #refresh(counting: boolean): Promise<ReadonlySet<string> | undefined> {
    for (let attempt = 0; attempt < MOST_ELECTIONS; attempt++) {
      const sent = sendingNow();
      const beat = await this.rpc.keepAlive(this.lease);
      const kept = counting ? (await this.rpc.timeToLive(this.lease, true)).keys : [];
      const { header, count } = await this.rpc.range({ key: this.key, keys_only: true });
      if (count === "0") this.#gone = true;
      if (this.#gone) return undefined;
      if (Number(beat.TTL) <= 0 || header.raft_term !== beat.header.raft_term) continue;
      if (restMs(sent, this.ttlMs) > restMs(this.#proven, this.ttlMs)) this.#proven = sent;
      return new Set(kept.map(textOf));
    }
    throw backendError("etcd is electing a leader.", { retryable: true });
  }

  /** From here on, no claim that was sent before comes true. */
  cancelPending(): Promise<void> {
    return this.#cancelling.run(() => this.#cancelPending());
  }

  async #cancelPending(): Promise<void> {
    const { key, lease } = this;
    const { succeeded, responses } = await this.rpc.txn({
      compare: [this.unchanged()],
      success: [{ request_put: { key, value: this.#value(this.#epoch + 1), lease } }],
      failure: [{ request_range: { key } }],
    });
    if (succeeded) this.#epoch++;
    else this.learn(responses[0]?.response_range);
  }

  /** What the servers have instead of what we know, if so: the answer to an earlier request of ours was lost. */
  learn(read: RangeResponse | undefined): boolean {
    const [found] = read?.kvs ?? [];
    const epoch = Number(found?.value.toString());
    if (found === undefined) this.#gone = true;
    else if (epoch === this.#epoch) return false;
    else this.#epoch = epoch;
    return true;
  }

  /** Refreshes it in the background if it is time for that. A claim that relies on it is told by its own answer. */
  keepFresh(): void {
    if (!this.#gone && this.remainingMs() <= (this.ttlMs * 2) / 3) this.refresh().catch(() => undefined);
  }

  #value(epoch = this.#epoch): Buffer {
    return Buffer.from(String(epoch));
  }

  async end(): Promise<void> {
    this.#gone = true;
    await this.rpc.revokeLease(this.lease);
  }
}

/** The sessions of one connection, by ttl: opened when needed, kept while they are used. */
export class Sessions {
  readonly #rpc: EtcdRpc;
  readonly #root: string;
  readonly #byTtl = new Map<number, Promise<Session>>();

  constructor(rpc: EtcdRpc, root: string) {
    this.#rpc = rpc;
    this.#root = root;
  }

  /** One that lives long enough for a new claim to have most of its time before it. */
  async withTtl(ttlMs: number): Promise<Session> {
    const ttlS = Math.max(1, Math.ceil(ttlMs / 1_000));
    for (let attempt = 0; attempt < MOST_SESSIONS; attempt++) {
      const opening = this.#open(ttlS);
      const session = await opening;
      if (await isFresh(session)) return session;
      this.#forget(ttlS, opening);
    }
    throw backendError(`etcd answers too slowly for a ttl of ${ttlS} s.`, { retryable: true });
  }

  async close(inUse: ReadonlySet<Session>): Promise<void> {
    const opened = [...this.#byTtl.values()];
    this.#byTtl.clear();
    await Promise.allSettled(
      opened.map(async (opening) => {
        const session = await opening;
        if (!session.gone && !inUse.has(session)) await session.end();
      }),
    );
  }

  #open(ttlS: number): Promise<Session> {
    const known = this.#byTtl.get(ttlS);
    if (known !== undefined) return known;
    const opening = Session.open(this.#rpc, this.#root, ttlS);
    this.#byTtl.set(ttlS, opening);
    opening.catch(() => this.#forget(ttlS, opening));
    return opening;
  }

  /** Of all claims that find it gone, the first opens a new one for all of them. */
  #forget(ttlS: number, opening: Promise<Session>): void {
    if (this.#byTtl.get(ttlS) === opening) this.#byTtl.delete(ttlS);
  }
}

async function isFresh(session: Session): Promise<boolean> {
  if (session.gone) return false;
  if (session.remainingMs() <= session.ttlMs / 3) return session.refresh();
  session.keepFresh();
  return true;
}
