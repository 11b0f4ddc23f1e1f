import {
  EVENT_DELETE,
  type KeyValue,
  type Long,
  MOST_QUESTIONS,
  NO_PUTS,
  type WatchResponse,
} from "./messages.js";
import type { EtcdRpc, WatchStream } from "./rpc.js";

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** How later versions than 3.4 name a watch that they refuse. */
const NO_WATCH = "-1";

export interface Watched {
  readonly key: Buffer;
  readonly range_end?: Buffer;
  /** Tell of what happened from this revision on, however long ago that is. */
  readonly from: bigint;
  readonly deletionsOnly: boolean;
  /** `undefined`: look for yourself, because what happened is not known any more, or not yet. */
  on(event: { readonly deleted: boolean; readonly kv: KeyValue } | undefined): void;
}

interface Standing {
  readonly watched: Watched;
  from: bigint;
  /** The server has not yet said that it stands. */
  isNew: boolean;
}

/** All watches of one connection on one stream. When it breaks, they go on at the revision they had reached. */
export class Watcher {
  readonly #rpc: EtcdRpc;
  readonly #standing = new Map<Long, Standing>();
  /** The server has begun them behind its newest revision. */
  readonly #behind = new Map<Long, Standing>();
  #looking = false;
  #stream: WatchStream | undefined;
  #opening = false;
  #lastId = 0;
  #failures = 0;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(rpc: EtcdRpc) {
    this.#rpc = rpc;
  }

  watch(watched: Watched): () => void {
    const id = String(++this.#lastId);
    const standing = { watched, from: watched.from, isNew: true };
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
    this.#behind.clear();
    this.#stream?.cancel();
  }

  #create(stream: WatchStream, id: Long, { watched, from }: Standing): void {
    stream.write({
      create_request: {
        key: watched.key,
        ...(watched.range_end === undefined ? undefined : { range_end: watched.range_end }),
        start_revision: String(from),
        filters: watched.deletionsOnly ? [NO_PUTS] : [],
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
      stream.on("data", (answer: WatchResponse) => {
        if (this.#hear(answer)) return;
        // This user may not read there, or its token has become old: with a new one, and not at once.
        refused();
        stream.cancel();
      });
      const onBroken = () => {
        if (this.#stream === stream) broke();
        this.#broke(stream);
      };
      stream.on("error", onBroken);
      stream.on("end", onBroken);
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
    const delayMs = Math.min(FIRST_RETRY_MS * 2 ** this.#failures++, LONGEST_RETRY_MS);
    this.#retry = setTimeout(() => void this.#open(), delayMs).unref();
  }

  /** Says whether the watch stands, or has ended as it may. */
  #hear({ header, watch_id, created, canceled, compact_revision, events }: WatchResponse): boolean {
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
    this.#failures = 0;
    if (created && standing.isNew) {
      standing.isNew = false;
      if (watched.deletionsOnly && BigInt(header.revision) >= standing.from) {
        this.#behind.set(watch_id, standing);
        void this.#look();
      }
    }
    for (const { type, kv } of events) {
      standing.from = BigInt(kv.mod_revision) + 1n;
      watched.on({ deleted: type === EVENT_DELETE, kv });
    }
    return true;
  }

  /**
   * What happened before a watch stood, servers tell every 100 ms only. A lock must not be idle for so long; and
   * those who come together are looked up together.
   */
  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    while (this.#behind.size > 0) {
      const some = [...this.#behind].slice(0, MOST_QUESTIONS);
      for (const [id] of some) this.#behind.delete(id);
      const success = some.map(([, { watched }]) => ({
        request_range: { key: watched.key, keys_only: true },
      }));
      // Without an answer, the watches will tell.
      const seen = await this.#rpc.txn({ success }).catch(() => undefined);
      for (const [index, [id, standing]] of some.entries()) {
        const isGone = seen?.responses[index]?.response_range?.kvs.length === 0;
        if (isGone && this.#standing.get(id) === standing) standing.watched.on(undefined);
      }
    }
    this.#looking = false;
  }
}
