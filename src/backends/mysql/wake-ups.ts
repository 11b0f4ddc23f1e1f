import { randomBytes } from "node:crypto";
import { nowMs } from "../../core/clock.js";
import { delay, startTimer } from "../../core/timer.js";
import { Backoff } from "../../engine-kit/request-timeout.js";
import type { SqlNotifications } from "../sql/backend.js";
import type { Poller } from "../sql/poller.js";
import type { Lent } from "../sql/pool.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";
import { isInterrupted } from "./errors.js";
import { AS_USUAL, firstRow, type MysqlSession, rowsOf } from "./library.js";
import { procedureName } from "./schema.js";

/** So long one sleep lasts at most. A server looks every 5 s whether the client of a sleep is still there. */
const SLEEP_S = 5;
/** A lock of a connection of ours that is just being closed is free soon. */
const LOCK_S = 1;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 60_000;
/** So long a release may take to tell a connection that sleeps that it is no longer needed. */
const LONGEST_CLOSING_MS = 200;

interface WakeUpSettings {
  readonly prefix: string;
  /** How long a request may take. */
  readonly timeoutMs: number;
  /** A connection for longer than one request. */
  lend(): Promise<Lent<MysqlSession>>;
}

interface Sleeping {
  readonly lent: Lent<MysqlSession>;
  readonly threadId: number;
  /** It leads to a server that can no longer write. */
  isReplaced: boolean;
}

/**
 * While claims of this process wait, one connection sleeps at the server. The release that lets one of them in
 * interrupts that sleep. It is a hint only: a lost one costs a look of the poller, which goes on as it does without.
 *
 * What can be interrupted by mistake must be nothing but our sleep. So the connection is found by a lock that only it
 * holds, it does nothing else as long as it lives, and it is closed afterwards.
 */
export class WakeUps implements SqlNotifications {
  readonly channel = randomBytes(9).toString("hex");
  readonly #settings: WakeUpSettings;
  readonly #waiters: WaiterRegistry;
  readonly #poller: Poller;
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
  #sleeping: Sleeping | undefined;
  #running: Promise<void> | undefined;
  #closed = false;

  constructor(settings: WakeUpSettings, waiters: WaiterRegistry, poller: Poller) {
    this.#settings = settings;
    this.#waiters = waiters;
    this.#poller = poller;
    waiters.onChange(() => this.#begin());
  }

  /** The server that it sleeps at has turned out to be read-only: the locks are on another one by now. */
  reconnect(): void {
    if (this.#sleeping !== undefined) this.#sleeping.isReplaced = true;
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#sleeping === undefined) return;
    await Promise.race([this.#wakeUp().then(() => this.#running), delay(LONGEST_CLOSING_MS)]);
  }

  /** Interrupts its own sleep. A connection that cannot be told so ends its sleep by itself. */
  async #wakeUp(): Promise<void> {
    try {
      const lent = await this.#settings.lend();
      const wake = `CALL ${procedureName(this.#settings.prefix, "wake")}('${this.channel}')`;
      const told = firstRow(lent.connection, wake);
      await told.then(
        () => lent.giveBack(false),
        () => lent.giveBack(true),
      );
    } catch {
      // There is no connection for it.
    }
  }

  #begin(): void {
    if (this.#running !== undefined || this.#closed || this.#waiters.waiting.size === 0) return;
    this.#running = this.#run().then((pauseMs) => {
      if (pauseMs === 0) this.#over();
      else startTimer(() => this.#over(), pauseMs).unref();
    });
  }

  #over(): void {
    this.#running = undefined;
    this.#begin();
  }

  /** Until it is not needed for a while, or cannot be; says how long to wait before the next attempt. */
  async #run(): Promise<number> {
    let lent: Lent<MysqlSession> | undefined;
    try {
      lent = await this.#settings.lend();
      lent.unref();
      const threadId = await this.#lock(lent);
      if (threadId !== undefined) {
        this.#sleeping = { lent, threadId, isReplaced: false };
        if (await this.#sleepAgain(this.#sleeping)) return 0;
      }
    } catch {
      lent?.giveBack(true);
    } finally {
      this.#sleeping = undefined;
      lent?.retire();
    }
    return this.#backoff.failedMs();
  }

  /**
   * Takes the lock by which the connection is found, and answers the connection's number. The lock is taken in a text
   * of its own: a proxy that reads it keeps the connection for this client from then on. One that does not is known by
   * the number, which is that of another connection.
   */
  async #lock({ connection }: Lent<MysqlSession>): Promise<number | undefined> {
    const { threadId } = connection as { readonly threadId?: unknown };
    if (typeof threadId !== "number") return undefined;
    const lock = `GET_LOCK('locktender wake-up ${this.channel}', ${LOCK_S})`;
    const row = await firstRow(connection, `SELECT IF(CONNECTION_ID() = ${threadId}, ${lock}, 0) AS got`);
    return Number(row?.got) === 1 ? threadId : undefined;
  }

  /** `false`: it cannot sleep there. */
  async #sleepAgain(sleeping: Sleeping): Promise<boolean> {
    for (;;) {
      const startMs = nowMs();
      const state = await this.#sleep(sleeping);
      if (state === "impossible") return false;
      if (state === "interrupted") this.#backoff.reset();
      if (this.#closed || sleeping.isReplaced) return true;
      if (state === "interrupted") this.#poller.woken();
      // Kept for a while after the last claim has been let in: the next one may soon wait.
      else if (this.#waiters.waiting.size === 0) return true;
      // What limits the time of statements may end each sleep at once.
      else if (nowMs() - startMs < FIRST_RETRY_MS) return false;
    }
  }

  async #sleep({ lent, threadId }: Sleeping): Promise<"interrupted" | "over" | "impossible"> {
    const sql = `CALL ${procedureName(this.#settings.prefix, "sleep")}(?, ?, ?)`;
    const values = [this.channel, threadId, SLEEP_S];
    const asked = lent.connection.execute({ sql, values, ...AS_USUAL });
    // It keeps no program running, as the timer of a request does.
    const late = startTimer(() => lent.abandon(asked), SLEEP_S * 1_000 + this.#settings.timeoutMs).unref();
    try {
      const [row] = rowsOf((await asked)[0]);
      if (row?.state === null || row?.state === undefined) return "impossible";
      return Number(row.state) === 0 ? "over" : "interrupted";
    } catch (error) {
      if (isInterrupted(error)) return "interrupted";
      throw error;
    } finally {
      clearTimeout(late);
    }
  }
}
