import { backendError } from "../../core/errors.js";
import type { EtcdRpc } from "./rpc.js";
import { Session } from "./session.js";

const MOST_ATTEMPTS = 3;

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
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const opening = this.#open(ttlS);
      const session = await opening;
      if (await isFresh(session)) return session;
      this.#forget(ttlS, opening);
    }
    throw backendError(`etcd answers too slowly for a ttl of ${ttlS} s.`, { retryable: true });
  }

  /** Ends those that nobody uses any more; the others end by their ttl, because somebody may still work. */
  async close(isUsed: (session: Session) => boolean): Promise<void> {
    const opened = await Promise.allSettled(this.#byTtl.values());
    this.#byTtl.clear();
    const unused = opened.flatMap((one) =>
      one.status === "fulfilled" && !one.value.gone && !isUsed(one.value) ? [one.value] : [],
    );
    await Promise.allSettled(unused.map((session) => session.end()));
  }

  #open(ttlS: number): Promise<Session> {
    const known = this.#byTtl.get(ttlS);
    if (known !== undefined) return known;
    const opening = Session.open(this.#rpc, this.#root, ttlS * 1_000);
    this.#byTtl.set(ttlS, opening);
    opening.catch(() => this.#forget(ttlS, opening));
    return opening;
  }

  /** Of all who find it gone, the first opens a new one for everybody. */
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
