import { startTimer } from "../../core/timer.js";
import { Backoff } from "../../engine-kit/request-timeout.js";
import {
  EVENT_DELETE,
  type KeyValue,
  type Long,
  MOST_QUESTIONS,
  NO_PUTS,
  type WatchResponse,
} from "./messages.js";
import type { EtcdRpc } from "./rpc.js";
import type { WatchStream } from "./watch-stream.js";

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** How later versions than 3.4 name a watch that they refuse. */
const NO_WATCH = "-1";
const FROM_NOW = 0;

export interface Watched {
  readonly key: Buffer;
  readonly range_end?: Buffer;
  /** Tell of what happened from this revision on, however long ago that is. */
  readonly from?: bigint;
  /** Or tell only when the key that was created then is not there any more. */
  readonly created?: Long;
  /** `undefined`: look for yourself, because what happened is not known. */
  on(event: { readonly deleted: boolean; readonly kv: KeyValue } | undefined): void;
}

interface Standing {
  readonly watched: Watched;
  from: bigint | undefined;
}

/**
 * All watches of one connection on one stream. When it breaks, they go on at the revision they had reached, or look.
 *
 * Servers tell of what happened before a watch stands every 100 ms only, and as long as that lasts, also of what
 * happens then. A lock must not be idle for so long: so a waiter watches for a deletion from now on, and what may
 * have been deleted before is looked up as soon as the watch stands.
 */
export class Watcher {
  readonly #rpc: EtcdRpc;
  readonly #standing = new Map<Long, Standing>();
  /** They stand, and what they watch was not looked at yet. */
  readonly #unseen = new Map<Long, Standing>();
  #looking = false;
  #stream: WatchStream | undefined;
  #opening = false;
  #lastId = 0;
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(rpc: EtcdRpc) {
    this.#rpc = rpc;
  }

  watch(watched: Watched): () => void {
    const id = String(++this.#lastId);
    const standing = { watched, from: watched.from };
    this.#standing.set(id, standing);
    if (this.#stream !== undefined) this.#create(this.#stream, id, standing);
    else void this.#open();
    return () => {
      if (this.#standing.delete(id)) this.#stream?.write({ cancel_request: { watch_id: id } });
    };
  }

  /** The server of before may be silent for ever: go on at the one that is asked now. */
  renew(): void {
    this.#stream?.cancel();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#standing.clear();
    this.#unseen.clear();
    this.#stream?.cancel();
  }

  #create(stream: WatchStream, id: Long, { watched, from }: Standing): void {
    stream.write({
      create_request: {
        key: watched.key,
        ...(watched.range_end === undefined ? undefined : { range_end: watched.range_end }),
        start_revision: String(from ?? FROM_NOW),
        filters: from === undefined ? [NO_PUTS] : [],
        watch_id: id,
      },
    });
  }

  async #open(): Promise<void> {
    if (this.#opening || this.#closed) return;
    this.#opening = true;
    clearTimeout(this.#retry);
    try {
      const { stream, broke, refused } = await this.#rpc.openWatch();
      this.#stream = stream;
      stream.listen({
        heard: (answer) => {
          if (this.#hear(answer)) return;
          // This user may not read there, or its token has become old: with a new one, and not at once.
          refused();
          stream.cancel();
        },
        broke: () => {
          if (this.#stream === stream) broke();
          this.#broke(stream);
        },
      });
      if (this.#closed) stream.cancel();
      for (const [id, standing] of this.#standing) this.#create(stream, id, standing);
    } catch {
      this.#later();
    } finally {
      this.#opening = false;
    }
  }

  #broke(stream: WatchStream): void {
    if (this.#stream !== stream) return;
    this.#stream = undefined;
    if (!this.#closed) this.#later();
  }

  #later(): void {
    if (this.#closed || this.#standing.size === 0) return;
    const delayMs = this.#backoff.failedMs();
    this.#retry = startTimer(() => void this.#open(), delayMs).unref();
  }

  /** Says whether the watch stands, or has ended as it may. */
  #hear({ watch_id, created, canceled, compact_revision, events }: WatchResponse): boolean {
    const standing = this.#standing.get(watch_id);
    if (standing === undefined) return !(canceled && watch_id === NO_WATCH);
    const { watched } = standing;
    if (canceled && compact_revision !== "0") {
      // What it missed was compacted away: it has to look for itself.
      this.#standing.delete(watch_id);
      watched.on(undefined);
      return true;
    }
    if (canceled) return false;
    this.#backoff.reset();
    if (created && standing.from === undefined) {
      this.#unseen.set(watch_id, standing);
      void this.#look();
    }
    for (const { type, kv } of events) {
      // An event of no key is none of etcd's: a new stream goes on where this one stood.
      if (kv === null) return false;
      if (standing.from !== undefined) standing.from = BigInt(kv.mod_revision) + 1n;
      watched.on({ deleted: type === EVENT_DELETE, kv });
    }
    return true;
  }

  /** All that came to stand since the last time, together. */
  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    while (this.#unseen.size > 0) {
      const some = [...this.#unseen].slice(0, MOST_QUESTIONS);
      for (const [id] of some) this.#unseen.delete(id);
      const success = some.map(([, { watched }]) => ({
        request_range: { key: watched.key, keys_only: true },
      }));
      const seen = await this.#rpc.txn({ success }).catch(() => undefined);
      for (const [index, [id, standing]] of some.entries()) {
        const [found] = seen?.responses[index]?.response_range?.kvs ?? [];
        if (found?.create_revision !== standing.watched.created && this.#standing.get(id) === standing)
          standing.watched.on(undefined);
      }
    }
    this.#looking = false;
  }
}
