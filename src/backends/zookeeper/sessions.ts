import { LockError } from "../../core/errors.js";
import type { ZooKeeperSettings } from "./options.js";
import { Session } from "./session.js";

/** A session may last this much longer than was asked for, so that similar times share one. */
const SHARED_UP_TO = 1.1;
/** For whoever only looks. */
const DEFAULT_MS = 15_000;

interface Opened {
  /** What it lasts; what was asked for, as long as the servers have not answered. */
  timeoutMs: number;
  readonly opening: Promise<Session>;
  session?: Session;
}

/** The sessions of one connection, each with a socket of its own, by how long they last. */
export class Sessions {
  readonly #settings: ZooKeeperSettings;
  readonly #events: Parameters<typeof Session.open>[2];
  readonly #opened = new Set<Opened>();
  /** What the servers allow, as far as they have shown it. */
  #shortestMs = 0;
  #longestMs = Infinity;
  #closed = false;

  constructor(settings: ZooKeeperSettings, events: Parameters<typeof Session.open>[2]) {
    this.#settings = settings;
    this.#events = events;
  }

  get live(): readonly Session[] {
    return [...this.#opened].flatMap(({ session }) =>
      session === undefined || session.gone ? [] : [session],
    );
  }

  /** Whichever there is. */
  async any(): Promise<Session> {
    const { ttlMs } = this.#settings;
    return this.live[0] ?? (await (ttlMs === undefined ? this.#get(DEFAULT_MS) : this.lasting(ttlMs)));
  }

  /** One that outlives a crash by that time, and not by much more, unless the servers want it longer. */
  async lasting(timeoutMs: number): Promise<Session> {
    if (timeoutMs <= this.#longestMs) {
      const session = await this.#get(timeoutMs);
      if (session.timeoutMs >= timeoutMs) return session;
    }
    throw new LockError(
      "unsupported",
      `this needs a session of ${Math.ceil(timeoutMs)} ms, but the servers allow at most ${this.#longestMs} ms. Ask for a shorter ttl, as in connect(url, { ttl: ${this.#longestMs} }), or a shorter minHold (with renew: false and with minHold it takes one and a half times as long a session; maxHold does not), or set maxSessionTimeout there.`,
    );
  }

  /** Ends those that nobody uses any more; the others end by themselves, because somebody may still work. */
  async close(isUsed: (session: Session) => boolean): Promise<void> {
    this.#closed = true;
    const opened = [...this.#opened];
    this.#opened.clear();
    await Promise.all(
      opened.map(async ({ opening }) => {
        const session = await opening.catch(() => undefined);
        await session?.client.close(!isUsed(session));
      }),
    );
  }

  #allowed(timeoutMs: number): number {
    return Math.ceil(Math.min(Math.max(timeoutMs, this.#shortestMs), this.#longestMs));
  }

  async #get(timeoutMs: number): Promise<Session> {
    if (this.#closed) throw new LockError("closed", "the connection to ZooKeeper is closed.");
    const wantedMs = this.#allowed(timeoutMs);
    let askedMs = wantedMs;
    for (const one of this.#opened) {
      if (one.session?.gone) this.#opened.delete(one);
      else if (one.timeoutMs >= wantedMs && one.timeoutMs <= wantedMs * SHARED_UP_TO) return one.opening;
      // Times that differ by little, each longer than the one before, would need a session each.
      else if (one.timeoutMs < wantedMs && one.timeoutMs * SHARED_UP_TO >= wantedMs)
        askedMs = this.#allowed(Math.floor(wantedMs * SHARED_UP_TO));
    }
    const opened: Opened = {
      timeoutMs: askedMs,
      opening: Session.open(this.#settings, askedMs, this.#events),
    };
    this.#opened.add(opened);
    try {
      const session = await opened.opening;
      opened.session = session;
      opened.timeoutMs = session.timeoutMs;
      if (session.timeoutMs > askedMs) this.#shortestMs = session.timeoutMs;
      if (session.timeoutMs < askedMs) this.#longestMs = session.timeoutMs;
      return session;
    } catch (error) {
      this.#opened.delete(opened);
      throw error;
    }
  }
}
