import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import { sessionKey } from "./keys.js";
import { type Compare, EQUAL, type Header, type Long, type RangeResponse, TARGET } from "./messages.js";
import type { EtcdRpc } from "./rpc.js";

/** A keep-alive that was answered, and still has to be confirmed. */
export interface Beat {
  readonly sentMs: number;
  readonly term: Long;
}

/**
 * A lease of etcd that all claims of one ttl share, and a key of its own that lives as long. Claims are made
 * only while that key has the value that we know: so a request whose fate is unknown can be called off by
 * changing it, however late the request is delivered.
 */
export class Session {
  readonly ttlMs: number;
  readonly key: Buffer;
  /** Nobody may trust it past this, on our monotonic clock. */
  #deadlineMs: number;
  #epoch = 0;
  #gone = false;
  #refreshing: Promise<boolean> | undefined;
  #callingOff: Promise<void> | undefined;

  private constructor(
    private readonly rpc: EtcdRpc,
    root: string,
    readonly lease: Long,
    ttlS: number,
    sentMs: number,
  ) {
    this.ttlMs = ttlS * 1_000;
    this.key = sessionKey(root, lease);
    this.#deadlineMs = sentMs + this.ttlMs;
  }

  static async open(rpc: EtcdRpc, root: string, ttlMs: number): Promise<Session> {
    const sentMs = nowMs();
    // Whole seconds, and the servers may give more than was asked for.
    const { ID, TTL } = await rpc.grantLease(Math.max(1, Math.ceil(ttlMs / 1_000)));
    const session = new Session(rpc, root, ID, Number(TTL), sentMs);
    await rpc.txn({ success: [{ request_put: { key: session.key, value: session.#value(), lease: ID } }] });
    return session;
  }

  get gone(): boolean {
    return this.#gone;
  }

  remainingMs(): number {
    return this.#gone ? 0 : Math.max(0, this.#deadlineMs - nowMs());
  }

  /** A condition for requests that must not come true once they were called off. */
  unchanged(): Compare {
    return { key: this.key, target: TARGET.value, result: EQUAL, value: this.#value() };
  }

  /** The keep-alive alone proves nothing: see `confirm`. `undefined` if the lease is gone. */
  async beat(): Promise<Beat | undefined> {
    const sentMs = nowMs();
    const { TTL, header } = await this.rpc.keepAlive(this.lease);
    if (Number(TTL) > 0) return { sentMs, term: header.raft_term };
    this.#gone = true;
    return undefined;
  }

  /**
   * A leader that was stopped and resumed answers keep-alives of leases that are long gone. It counts only if
   * a read that all members agree on was sent after the answer and shows the same term of office.
   */
  confirm(beat: Beat, header: Header, found: boolean): boolean {
    if (!found) this.#gone = true;
    if (!found || header.raft_term !== beat.term) return false;
    this.#deadlineMs = Math.max(this.#deadlineMs, beat.sentMs + this.ttlMs);
    return true;
  }

  /** Says whether it is still there. */
  refresh(): Promise<boolean> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #refresh(): Promise<boolean> {
    for (let attempt = 0; attempt < 3; attempt++) {
      const beat = await this.beat();
      if (beat === undefined) return false;
      const { header, count } = await this.rpc.range({ key: this.key, keys_only: true });
      if (this.confirm(beat, header, count !== "0")) return true;
      if (this.#gone) return false;
    }
    throw backendError("etcd is electing a leader.", { retryable: true });
  }

  /** From here on, no claim that was sent before comes true. */
  callOff(): Promise<void> {
    this.#callingOff ??= this.#callOff().finally(() => {
      this.#callingOff = undefined;
    });
    return this.#callingOff;
  }

  async #callOff(): Promise<void> {
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

  /** Refreshes it in the background if it is time for that. Whoever relies on it is told by its own answer. */
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
