import type { CellChange, CellStore, StoredCell } from "../../core/cells.js";
import { backendError } from "../../core/errors.js";
import { againIfExpired, type Desk } from "./desk.js";
import { isRefusal, unless } from "./errors.js";
import { encodeName } from "./names.js";
import type { ZooKeeperSettings } from "./options.js";
import { create, ERROR, getData, MODE, removeIf, type Stat, setData, sync } from "./protocol.js";
import type { Session } from "./session.js";

/** What a cell's node holds; nothing at all if it was deleted. */
interface Content {
  readonly text: string;
  readonly keepMs?: number | undefined;
}

interface Found {
  readonly stat: Stat;
  readonly cell: StoredCell | undefined;
}

/** Whoever may write there can write anything. */
function readContent(data: Buffer, name: string): Content {
  try {
    const content = JSON.parse(data.toString()) as Content;
    if (typeof content.text === "string") return content;
  } catch {
    // Said below.
  }
  throw backendError(`the cell "${name}" was not written by Locktender.`, { name, retryable: false });
}

/** Longer than any request lasts: see below. */
const REMOVED_AFTER_MS = 60_000;
const MOST_ATTEMPTS = 20;
const NOTHING = Buffer.alloc(0);

/**
 * A cell is a node, and its version the transaction of its last change. The servers compare only how often a node
 * was changed since it was made; so one that is deleted is emptied first, and removed when nobody who has seen it
 * before can still be about to change it. Until when a cell is kept is judged by the servers' clock, too.
 */
export class ZooKeeperCells implements CellStore {
  readonly #desk: Desk;
  readonly #acl: ZooKeeperSettings["acl"];

  constructor(desk: Desk, acl: ZooKeeperSettings["acl"]) {
    this.#desk = desk;
    this.#acl = acl;
  }

  read(name: string): Promise<StoredCell | undefined> {
    return againIfExpired(async () => (await this.#find(await this.#desk.sessions.any(), name))?.cell);
  }

  write(name: string, change: CellChange): Promise<bigint | undefined> {
    return againIfExpired(async () => this.#write(await this.#desk.sessions.any(), name, change));
  }

  async #write(session: Session, name: string, change: CellChange): Promise<bigint | undefined> {
    const { text, ifVersion, keepMs } = change;
    const content: Content = { text: text ?? "", keepMs };
    const data = text === undefined ? NOTHING : Buffer.from(JSON.stringify(content));
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const found = await this.#find(session, name);
      if (ifVersion !== undefined && ifVersion !== (found?.cell?.version ?? null)) return undefined;
      const written = await this.#change(session, name, data, found?.stat.version);
      if (written === undefined) continue;
      if (text === undefined) this.#removeLater(name, written.version);
      return written.mzxid;
    }
    throw backendError(`too many write the cell "${name}" at once.`, { name, retryable: true });
  }

  /** `undefined` if somebody was faster. */
  async #change(
    session: Session,
    name: string,
    data: Buffer,
    version: number | undefined,
  ): Promise<Stat | undefined> {
    const path = this.#path(name);
    const { client } = session;
    if (version !== undefined) {
      return client.send(setData(path, data, version)).catch(unless(ERROR.badVersion, ERROR.noNode));
    }
    const make = () => client.send(create(path, data, this.#acl, MODE.persistent));
    const made = make().catch(async (error: unknown) => {
      if (!isRefusal(error, ERROR.noNode)) throw error;
      await session.makeRoot(this.#folder);
      return make();
    });
    return (await made.catch(unless(ERROR.nodeExists)))?.stat;
  }

  async #find(session: Session, name: string): Promise<Found | undefined> {
    const { client } = session;
    const path = this.#path(name);
    // Our server may be behind the one that somebody else has just written to.
    const [, read] = await Promise.all([
      client.send(sync(path)),
      client.send(getData(path, false)).catch(unless(ERROR.noNode)),
    ]);
    if (read === undefined) return undefined;
    const { stat, data } = read;
    if (data.length === 0) {
      this.#removeLater(name, stat.version);
      return { stat, cell: undefined };
    }
    const { text, keepMs } = readContent(data, name);
    const over = keepMs !== undefined && (await session.serverTimeMs()) >= stat.mtimeMs + keepMs;
    if (over) this.#removeLater(name, stat.version);
    return { stat, cell: over ? undefined : { text, version: stat.mzxid } };
  }

  /** Unless it was changed again by then. */
  #removeLater(name: string, version: number): void {
    const path = this.#path(name);
    this.#desk.timers.later(REMOVED_AFTER_MS, () => {
      const removed = this.#desk.sessions.any().then(({ client }) => client.send(removeIf(path, version)));
      // Whoever comes across it next tries again.
      removed.catch(() => undefined);
    });
  }

  get #folder(): string {
    return `${this.#desk.root}/%cells`;
  }

  #path(name: string): string {
    return `${this.#folder}/${encodeName(name)}`;
  }
}
