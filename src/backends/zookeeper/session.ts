import { LockError } from "../../core/errors.js";
import { Client } from "./client.js";
import { closedError, noTree, unless } from "./errors.js";
import {
  type Created,
  create,
  ERROR,
  getData,
  getEphemerals,
  MODE,
  remove,
  type Stat,
  setData,
} from "./messages.js";
import type { ZooKeeperSettings } from "./options.js";
import { QueueViews } from "./queue-view.js";

const NOTHING = Buffer.alloc(0);

/** What the paths of all nodes for notices begin with. */
export function noticePrefix(root: string): string {
  return `${root}/%bell-`;
}

export interface SessionEvents {
  /** Another process has written a notice for it. */
  noticed(session: Session): void;
  /** It is connected again, and all watches are gone. */
  reattached(session: Session): void;
  gone(session: Session): void;
}

/**
 * A session of ZooKeeper that many claims share, with two nodes of its own: one to write to, because only that
 * shows that the session is alive, and one where other processes write notices for it.
 */
export class Session {
  readonly client: Client;
  readonly queues: QueueViews;
  readonly noticePath: string;
  readonly #path: string;
  readonly #root: string;
  readonly #acl: ZooKeeperSettings["acl"];
  readonly #onNotice: () => void;
  #prepared: Promise<void> | undefined;
  #isPrepared = false;
  #looking: Promise<ReadonlySet<string>> | undefined;
  #beating: Promise<unknown> | undefined;

  private constructor(client: Client, { root, acl }: ZooKeeperSettings, onNotice: (of: Session) => void) {
    this.client = client;
    this.queues = new QueueViews(this);
    this.#root = root;
    this.#acl = acl;
    const id = BigInt.asUintN(64, client.id).toString(16);
    this.#path = `${root}/%session-${id}`;
    this.noticePath = `${noticePrefix(root)}${id}`;
    this.#onNotice = () => onNotice(this);
  }

  static async open(settings: ZooKeeperSettings, timeoutMs: number, on: SessionEvents): Promise<Session> {
    const client = await Client.open(settings, timeoutMs);
    const session = new Session(client, settings, on.noticed);
    client.events = { reattached: () => on.reattached(session), gone: () => on.gone(session) };
    return session;
  }

  get gone(): boolean {
    return this.client.gone;
  }

  /** Its own nodes are there. A session that only reads does not need them. */
  prepare(): Promise<void> | undefined {
    if (this.#isPrepared) return undefined;
    if (this.#prepared === undefined) {
      const preparing = this.#prepare();
      this.#prepared = preparing;
      preparing.then(
        () => {
          if (this.#prepared === preparing) this.#isPrepared = true;
        },
        () => {
          if (this.#prepared === preparing) this.#prepared = undefined;
        },
      );
    }
    return this.#prepared;
  }

  async #prepare(): Promise<void> {
    await this.make(this.#path, NOTHING, MODE.ephemeral);
    await this.make(this.noticePath, NOTHING, MODE.ephemeral);
    await this.readNotices();
  }

  /**
   * Makes a node; `undefined` if it is there. What it stands in is made if it is missing, as containers, which vanish
   * when nothing is left in them. Above what is there, we may have no rights.
   */
  async make(
    path: string,
    data: Buffer = NOTHING,
    mode: number = MODE.container,
  ): Promise<Created | undefined> {
    const make = () => this.client.send(create(path, data, this.#acl, mode)).catch(unless(ERROR.nodeExists));
    try {
      return await make();
    } catch (error) {
      unless(ERROR.noNode)(error);
      const above = path.slice(0, path.lastIndexOf("/"));
      if (above === "") throw noTree(path, error);
      await this.make(above);
      return make();
    }
  }

  /** What a node holds, and its state; `undefined` if it is not there. */
  find(path: string, watch = false): Promise<{ data: Buffer; stat: Stat } | undefined> {
    return this.client.send(getData(path, watch)).catch(unless(ERROR.noNode));
  }

  /** Says whether it was there. */
  async remove(path: string): Promise<boolean> {
    const removed = this.client.send(remove(path)).then(() => true);
    return (await removed.catch(unless(ERROR.noNode))) ?? false;
  }

  /** What other processes have written; from now on a change is told. */
  async readNotices(): Promise<Buffer> {
    const stop = this.client.watch(this.noticePath, this.#onNotice);
    try {
      return (await this.client.send(getData(this.noticePath, true))).data;
    } catch (error) {
      stop();
      unless(ERROR.noNode)(error);
      return NOTHING;
    }
  }

  /** A write, which shows that the session is alive. Callers of one turn share it. */
  beat(): Promise<unknown> {
    this.#beating ??= Promise.resolve().then(() => {
      this.#beating = undefined;
      return this.#write();
    });
    return this.#beating;
  }

  async #write(): Promise<Stat | undefined> {
    const written = await this.client.send(setData(this.#path, NOTHING)).catch(unless(ERROR.noNode));
    if (written !== undefined) return written;
    // Another client has deleted it; why is not ours to guess, but we have to write somewhere.
    this.#prepared = undefined;
    this.#isPrepared = false;
    await this.prepare();
    return undefined;
  }

  /** What the servers' wall clock says: they tell it only of what they write. */
  async serverTimeMs(): Promise<number> {
    await this.prepare();
    const written = (await this.#write()) ?? (await this.client.send(setData(this.#path, NOTHING)));
    return written.mtimeMs;
  }

  /** A beat, and which of its nodes are there after it. */
  look(): Promise<ReadonlySet<string>> {
    this.#looking ??= Promise.resolve().then(async () => {
      this.#looking = undefined;
      const ephemerals = getEphemerals(this.#root || "/");
      const [, paths] = await Promise.all([this.#write(), this.client.send(ephemerals)]);
      return new Set(paths);
    });
    return this.#looking;
  }
}

/** A session may last this much longer than was asked for, so that similar times share one. */
const SHARED_UP_TO = 1.1;
/** For a connection that only reads. */
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
  readonly #events: SessionEvents;
  readonly #opened = new Set<Opened>();
  /** What the servers allow, as far as they have shown it. */
  #shortestMs = 0;
  #longestMs = Infinity;
  #closed = false;

  constructor(settings: ZooKeeperSettings, events: SessionEvents) {
    this.#settings = settings;
    this.#events = events;
  }

  get live(): readonly Session[] {
    return [...this.#opened].flatMap(({ session }) =>
      session === undefined || session.gone ? [] : [session],
    );
  }

  /** One that is alive, however long it lasts. */
  async any(): Promise<Session> {
    const { ttlMs } = this.#settings;
    return this.live[0] ?? (await (ttlMs === undefined ? this.#get(DEFAULT_MS) : this.lasting(ttlMs)));
  }

  /** The same without waiting, if it is there. */
  opened(timeoutMs: number): Session | undefined {
    const wantedMs = this.#allowed(timeoutMs);
    for (const { session } of this.#opened) {
      if (session === undefined || session.gone) continue;
      const lastsMs = session.client.timeoutMs;
      if (lastsMs >= Math.max(timeoutMs, wantedMs) && lastsMs <= wantedMs * SHARED_UP_TO) return session;
    }
    return undefined;
  }

  /** One that outlives a crash by that time, and not by much more, unless the servers want it longer. */
  async lasting(timeoutMs: number): Promise<Session> {
    if (timeoutMs <= this.#longestMs) {
      const session = await this.#get(timeoutMs);
      if (session.client.timeoutMs >= timeoutMs) return session;
    }
    throw new LockError(
      "unsupported",
      `this needs a session of ${Math.ceil(timeoutMs)} ms, but the servers allow at most ${this.#longestMs} ms. Ask for a shorter ttl, as in connect(url, { ttl: ${this.#longestMs} }), or a shorter minHold (with renew: false and with minHold it takes one and a half times as long a session; maxHold does not), or set maxSessionTimeout there.`,
    );
  }

  async close(inUse: ReadonlySet<Session>): Promise<void> {
    this.#closed = true;
    const opened = [...this.#opened];
    this.#opened.clear();
    await Promise.all(
      opened.map(async ({ opening }) => {
        const session = await opening.catch(() => undefined);
        await session?.client.close(!inUse.has(session));
      }),
    );
  }

  #allowed(timeoutMs: number): number {
    return Math.ceil(Math.min(Math.max(timeoutMs, this.#shortestMs), this.#longestMs));
  }

  async #get(timeoutMs: number): Promise<Session> {
    if (this.#closed) throw closedError();
    const wantedMs = this.#allowed(timeoutMs);
    let askedMs = wantedMs;
    for (const one of this.#opened) {
      if (one.session?.gone) this.#opened.delete(one);
      else if (one.timeoutMs >= wantedMs && one.timeoutMs <= wantedMs * SHARED_UP_TO) return one.opening;
      // Times that differ by little, each longer than the one before, would need a session each.
      else if (one.timeoutMs < wantedMs && one.timeoutMs * SHARED_UP_TO >= wantedMs)
        askedMs = this.#allowed(Math.floor(wantedMs * SHARED_UP_TO));
    }
    const opening = Session.open(this.#settings, askedMs, this.#events);
    const opened: Opened = { timeoutMs: askedMs, opening };
    this.#opened.add(opened);
    try {
      const session = await opening;
      const { timeoutMs: lastsMs } = session.client;
      opened.session = session;
      opened.timeoutMs = lastsMs;
      if (lastsMs > askedMs) this.#shortestMs = lastsMs;
      if (lastsMs < askedMs) this.#longestMs = lastsMs;
      return session;
    } catch (error) {
      this.#opened.delete(opened);
      throw error;
    }
  }
}
