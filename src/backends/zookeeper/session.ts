import { Client, type ClientEvents } from "./client.js";
import { isRefusal, noTree, unless } from "./errors.js";
import type { ZooKeeperSettings } from "./options.js";
import { create, ERROR, getData, getEphemerals, MODE, type Request, type Stat, setData } from "./protocol.js";
import { QueueViews } from "./queue-view.js";

const NOTHING = Buffer.alloc(0);

/** What the paths of all bells begin with. */
export function bellsOf(root: string): string {
  return `${root}/%bell-`;
}

/**
 * A session of ZooKeeper that many claims share, with two nodes of its own: one to write to, because only that
 * shows that the session is alive, and the bell, where others leave word for it.
 */
export class Session {
  readonly client: Client;
  readonly queues: QueueViews;
  readonly bell: string;
  readonly #path: string;
  readonly #root: string;
  readonly #acl: ZooKeeperSettings["acl"];
  readonly #onBell: () => void;
  #prepared: Promise<void> | undefined;
  #looking: Promise<ReadonlySet<string>> | undefined;
  #beating: Promise<void> | undefined;

  private constructor(client: Client, { root, acl }: ZooKeeperSettings, onBell: (of: Session) => void) {
    this.client = client;
    this.queues = new QueueViews(client);
    this.#root = root;
    this.#acl = acl;
    const id = BigInt.asUintN(64, client.id).toString(16);
    this.#path = `${root}/%session-${id}`;
    this.bell = `${bellsOf(root)}${id}`;
    this.#onBell = () => onBell(this);
  }

  static async open(
    settings: ZooKeeperSettings,
    timeoutMs: number,
    on: { bell(session: Session): void; reattached(session: Session): void; gone(session: Session): void },
  ): Promise<Session> {
    const client = await Client.open(settings, timeoutMs);
    const session = new Session(client, settings, on.bell);
    const events: ClientEvents = {
      reattached: () => on.reattached(session),
      gone: () => on.gone(session),
    };
    client.events = events;
    return session;
  }

  get timeoutMs(): number {
    return this.client.timeoutMs;
  }

  get gone(): boolean {
    return this.client.gone;
  }

  get trustedUntilMs(): number {
    return this.client.trustedUntilMs;
  }

  /** Its own nodes are there. Whoever only reads does not need them. */
  prepare(): Promise<void> {
    if (this.#prepared === undefined) {
      const preparing = this.#prepare();
      this.#prepared = preparing;
      preparing.catch(() => {
        if (this.#prepared === preparing) this.#prepared = undefined;
      });
    }
    return this.#prepared;
  }

  async #prepare(): Promise<void> {
    const own = (path: string) => create(path, NOTHING, this.#acl, MODE.ephemeral);
    await this.#createBelowRoot(own(this.#path));
    await this.#createBelowRoot(own(this.bell));
    await this.readBell();
  }

  async #createBelowRoot(request: Request<unknown>): Promise<void> {
    try {
      await this.client.send(request).catch(unless(ERROR.nodeExists));
    } catch (error) {
      if (!isRefusal(error, ERROR.noNode)) throw error;
      await this.makeRoot();
      await this.client.send(request).catch(unless(ERROR.nodeExists));
    }
  }

  /** As containers, which vanish when nothing is left in them. Above what is there, we may have no rights. */
  async makeRoot(path = this.#root): Promise<void> {
    const make = () =>
      this.client.send(create(path, NOTHING, this.#acl, MODE.container)).catch(unless(ERROR.nodeExists));
    try {
      await make();
    } catch (error) {
      if (!isRefusal(error, ERROR.noNode)) throw error;
      const above = path.slice(0, path.lastIndexOf("/"));
      if (above === "") throw noTree(path, error);
      await this.makeRoot(above);
      await make();
    }
  }

  /** What was left at the bell; from now on a change is told. */
  async readBell(): Promise<Buffer> {
    const stop = this.client.watch(this.bell, this.#onBell);
    try {
      return (await this.client.send(getData(this.bell, true))).data;
    } catch (error) {
      stop();
      unless(ERROR.noNode)(error);
      return NOTHING;
    }
  }

  /** A write, which shows that the session is alive. Those who ask in one turn share it. */
  beat(): Promise<void> {
    this.#beating ??= Promise.resolve().then(() => {
      this.#beating = undefined;
      return this.#beat();
    });
    return this.#beating;
  }

  async #beat(): Promise<void> {
    await this.#write();
  }

  async #write(): Promise<Stat | undefined> {
    const written = await this.client.send(setData(this.#path, NOTHING)).catch(unless(ERROR.noNode));
    if (written !== undefined) return written;
    // Somebody has deleted it; what that one wanted is not ours to guess, but we have to write somewhere.
    this.#prepared = undefined;
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
      const beating = this.#beat();
      const reading = this.client.send(getEphemerals(this.#root || "/"));
      const [, paths] = await Promise.all([beating, reading]);
      return new Set(paths);
    });
    return this.#looking;
  }
}
