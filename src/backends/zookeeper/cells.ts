import { createHash, randomInt } from "node:crypto";
import type { CellChange, CellStore, StoredCell } from "../../core/backend.js";
import { backendError, type LockError } from "../../core/errors.js";
import type { ZooKeeperDriver } from "./driver.js";
import { againIfExpired, againIfRefused, unless } from "./errors.js";
import { encodeName } from "./keys.js";
import { ERROR, getChildren, getData, MODE, remove, type Stat, setData, sync } from "./messages.js";
import type { Session } from "./session.js";

/** What a cell's node holds; nothing at all if it was deleted. */
interface Content {
  readonly text: string;
  readonly keepMs?: number | undefined;
}

/** A program that may write there can write anything. */
function readContent(data: Buffer, name: string): Content {
  try {
    const content = JSON.parse(data.toString()) as Content;
    if (typeof content.text === "string") return content;
  } catch {
    // It is not even JSON.
  }
  throw backendError(`the cell "${name}" was not written by Locktender.`, { name, retryable: false });
}

/** Longer than any request lasts: see `ZooKeeperCells`. */
const REMOVED_AFTER_MS = 60_000;
const MOST_ATTEMPTS = 20;
/** So that what a visit lists stays short. */
const FOLDERS = 64;
const CHANGES_PER_VISIT = 4;
const NODES_PER_VISIT = 16;
const NOTHING = Buffer.alloc(0);

/**
 * A cell is a node, and its version the transaction of its last change. The servers compare only how often a node
 * was changed since it was made; so one that is deleted or over is emptied first, and removed when no process that
 * has seen it full can still be about to change it. A process that saw it empty just before that, and writes only if
 * there is none, may still meet a new one that was changed as often, if others have made that between its look and
 * its write.
 * Until when a cell is kept is judged by the servers' clock, too.
 * What a process that ends leaves behind is tidied up by others that leave something.
 */
export class ZooKeeperCells implements CellStore {
  readonly #driver: ZooKeeperDriver;
  readonly #removedAfterMs: number;

  constructor(driver: ZooKeeperDriver, removedAfterMs = REMOVED_AFTER_MS) {
    this.#driver = driver;
    this.#removedAfterMs = removedAfterMs;
  }

  read(name: string): Promise<StoredCell | undefined> {
    return againIfExpired(async () => (await this.#find(await this.#driver.sessions.any(), name))?.cell);
  }

  async write(name: string, { text, ifVersion, keepMs }: CellChange): Promise<bigint | undefined> {
    const content: Content = { text: text ?? "", keepMs };
    const data = text === undefined ? NOTHING : Buffer.from(JSON.stringify(content));
    const written = await (ifVersion === undefined
      ? againIfExpired(async () => this.#overwrite(await this.#driver.sessions.any(), name, data))
      : againIfRefused(() => this.#writeIf(name, data, ifVersion)));
    if (written === undefined) return undefined;
    if (text === undefined) this.#removeLater(name, written.version);
    if (text === undefined || keepMs !== undefined) this.#tidyUp(written.mtimeMs);
    return written.mzxid;
  }

  /** Writes it, whatever is there. */
  async #overwrite(session: Session, name: string, data: Buffer): Promise<Stat> {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const written =
        (await this.#change(session, name, data, -1)) ?? (await this.#make(session, name, data));
      if (written !== undefined) return written;
    }
    throw tooMany(name);
  }

  /** `undefined` if it is not as expected, and nothing was written. */
  async #writeIf(name: string, data: Buffer, ifVersion: bigint | null): Promise<Stat | undefined> {
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const { session, found } = await againIfExpired(async () => {
        const any = await this.#driver.sessions.any();
        return { session: any, found: await this.#find(any, name) };
      });
      if (ifVersion !== (found?.cell?.version ?? null)) return undefined;
      const written = await (found === undefined
        ? this.#make(session, name, data)
        : this.#change(session, name, data, found.stat.version));
      if (written !== undefined) return written;
    }
    throw tooMany(name);
  }

  /** `undefined` if it is not there, or was changed by a process that was faster. */
  #change(session: Session, name: string, data: Buffer, version: number): Promise<Stat | undefined> {
    const changing = session.client.send(setData(this.#path(name), data, version));
    return changing.catch(unless(ERROR.badVersion, ERROR.noNode));
  }

  /** `undefined` if another process has made it, or if its folder has vanished again. */
  async #make(session: Session, name: string, data: Buffer): Promise<Stat | undefined> {
    const made = session.make(this.#path(name), data, MODE.persistent);
    return (await made.catch(unless(ERROR.noNode)))?.stat;
  }

  async #find(
    session: Session,
    name: string,
  ): Promise<{ readonly stat: Stat; readonly cell: StoredCell | undefined } | undefined> {
    const path = this.#path(name);
    // Our server may be behind the one that another process has just written to.
    const [, read] = await Promise.all([session.client.send(sync(path)), session.find(path)]);
    if (read === undefined) return undefined;
    const { stat, data } = read;
    if (data.length === 0) return { stat, cell: undefined };
    const { text, keepMs } = readContent(data, name);
    const over = keepMs !== undefined && isOver(stat, keepMs, await session.serverTimeMs());
    return { stat, cell: over ? undefined : { text, version: stat.mzxid } };
  }

  /** Unless it was changed again by then. */
  #removeLater(name: string, version: number): void {
    this.#driver.claims.timers.later(this.#removedAfterMs, () => {
      this.#inBackground(({ client }) => client.send(remove(this.#path(name), version)));
    });
  }

  /** Looks at a few nodes now and then: at more of them than come, so that what is over does not pile up. */
  #tidyUp(serverMs: number): void {
    if (Math.random() * CHANGES_PER_VISIT >= 1) return;
    const folder = `${this.#root}/${randomInt(FOLDERS)}`;
    this.#inBackground(async ({ client }) => {
      const nodes = (await client.send(getChildren(folder)).catch(unless(ERROR.noNode))) ?? [];
      const from = randomInt(nodes.length + 1);
      const some = [...nodes.slice(from), ...nodes.slice(0, from)].slice(0, NODES_PER_VISIT);
      await Promise.all(some.map((node) => this.#judge(client, `${folder}/${node}`, serverMs)));
    });
  }

  async #judge(client: Session["client"], path: string, serverMs: number): Promise<void> {
    const { stat, data } = await client.send(getData(path));
    if (data.length === 0) {
      if (isOver(stat, this.#removedAfterMs, serverMs)) await client.send(remove(path, stat.version));
      return;
    }
    const { keepMs } = readContent(data, path);
    if (keepMs !== undefined && isOver(stat, keepMs, serverMs))
      await client.send(setData(path, NOTHING, stat.version));
  }

  /** No caller waits for it; the process that next finds it tries again. */
  #inBackground(act: (session: Session) => Promise<unknown>): void {
    this.#driver.sessions
      .any()
      .then(act)
      .catch(() => undefined);
  }

  get #root(): string {
    return `${this.#driver.root}/%cells`;
  }

  #path(name: string): string {
    const [first = 0] = createHash("sha256").update(name).digest();
    return `${this.#root}/${first % FOLDERS}/${encodeName(name)}`;
  }
}

function isOver({ mtimeMs }: Stat, lastsMs: number, serverMs: number): boolean {
  return serverMs >= mtimeMs + lastsMs;
}

function tooMany(name: string): LockError {
  return backendError(`too many write the cell "${name}" at once.`, { name, retryable: true });
}
