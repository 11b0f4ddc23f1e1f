import { startTimer } from "../../core/timer.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import { lateError } from "../sql/errors.js";
import type { Lent } from "../sql/pool.js";
import { ENGINE } from "./errors.js";
import type { PgQuery, PgSession } from "./library.js";

const LONGEST_MS = 1_000;

/** What this process says to itself. */
export const PROBE = "probe";

/** Where requests of the listeners go, and how long they may take. */
export interface ProbeSettings {
  readonly where: string;
  readonly timeoutMs: number;
}

/** Asks by a connection that was lent, within the time that a request may take. */
export class BoundedAsking {
  readonly #where: string;
  readonly #requestTimeout: RequestTimeout;

  constructor({ where, timeoutMs }: ProbeSettings) {
    this.#where = where;
    this.#requestTimeout = new RequestTimeout(timeoutMs);
  }

  async ask(lent: Lent<PgSession>, query: PgQuery): Promise<readonly unknown[]> {
    const asked = lent.connection.query(query);
    const late = () => {
      lent.abandon(asked);
      return lateError(ENGINE, this.#where, this.#requestTimeout.timeoutMs);
    };
    return (await this.#requestTimeout.bound(asked, (error) => error as Error, late)).rows;
  }
}

/**
 * Finds out whether a process hears what is sent to its channel. Behind a pooler in transaction mode it hears
 * nothing, and neither does it after a failover if it still listens to the old server.
 */
export class Probe {
  readonly #channel: string;
  readonly #lend: () => Promise<Lent<PgSession>>;
  readonly #asking: BoundedAsking;
  readonly #waitMs: number;
  #onCame: (() => void) | undefined;

  constructor(channel: string, lend: () => Promise<Lent<PgSession>>, settings: ProbeSettings) {
    this.#channel = channel;
    this.#lend = lend;
    this.#asking = new BoundedAsking(settings);
    this.#waitMs = Math.min(LONGEST_MS, settings.timeoutMs);
  }

  /** The message has come, or is not waited for any longer. */
  came(): void {
    this.#onCame?.();
  }

  /** Sent by another connection, or a pooler might answer by the one on which it happens to listen. */
  async isHeard(): Promise<boolean> {
    let heard = false;
    let wake = () => {};
    this.#onCame = () => {
      heard = true;
      wake();
    };
    try {
      await this.#send();
      // Counted from here: it may have had to wait for its turn.
      await new Promise<void>((resolve) => {
        const timer = startTimer(() => resolve(), heard ? 0 : this.#waitMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      return heard;
    } catch {
      // Where no other connection is to be had, those that are left are needed more urgently: so it polls.
      return false;
    } finally {
      this.#onCame = undefined;
    }
  }

  async #send(): Promise<void> {
    const lent = await this.#lend();
    const values = [this.#channel, PROBE];
    const sent = this.#asking.ask(lent, { text: "SELECT pg_notify($1, $2)", values });
    await sent.then(
      () => lent.giveBack(false),
      (error: unknown) => {
        lent.giveBack(true);
        throw error;
      },
    );
  }
}
