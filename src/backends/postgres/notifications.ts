import { randomBytes } from "node:crypto";
import type { Force } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { asError } from "../../core/errors.js";
import { delay, startTimer } from "../../core/timer.js";
import { parseForce, readMessage } from "../../engine-kit/replies.js";
import { Backoff, RequestTimeout } from "../../engine-kit/request-timeout.js";
import type { SqlNotifications } from "../sql/backend.js";
import { lateError, ReadOnlyServerError } from "../sql/errors.js";
import type { Poller } from "../sql/poller.js";
import type { Lent } from "../sql/pool.js";
import { forceOf } from "../sql/replies.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";
import type { ListenerPool } from "./client.js";
import { ENGINE } from "./errors.js";
import type { PgClientLike, PgNotification, PgQuery, PgSession } from "./library.js";
import { quoted } from "./schema.js";

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** Where a notification of our own was not delivered, it is tried again after this. */
const UNDELIVERED_RETRY_MS = 60_000;
/** How long it may take at most to be delivered. */
const LONGEST_DELIVERY_MS = 1_000;
/** How often the connection is asked for a sign of life, in times that an answer may take. */
const HEARTBEAT = 5;
const LONGEST_CLOSING_MS = 200;

/** The notification that this process sends to itself. */
const TEST_PAYLOAD = "probe";

interface Connections {
  /** The one that listens. */
  readonly listener: ListenerPool;
  /** Another one, for a moment. */
  lend(): Promise<Lent<PgSession>>;
}

/**
 * One connection that listens for the whole process. The request by which a claim is granted notifies the process of
 * that claim only. Behind a pooler in transaction mode no notification would ever be delivered: so each new
 * subscription is tried with one of our own, and while it is not delivered, the poller looks.
 */
export class Notifications implements SqlNotifications {
  readonly #channel = `locktender_${randomBytes(9).toString("hex")}`;
  readonly #connections: Connections;
  readonly #where: string;
  readonly #waiters: WaiterRegistry;
  readonly #poller: Poller;
  readonly #requestTimeout: RequestTimeout;
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
  #begun = false;
  #areDelivered = true;
  #subscriptions = 0;
  #isListening = false;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;
  #heartbeat: NodeJS.Timeout | undefined;
  #end = ignore;
  #testArrived = ignore;
  #subscription: Promise<void> = Promise.resolve();

  constructor(
    connections: Connections,
    { where, timeoutMs }: { readonly where: string; readonly timeoutMs: number },
    waiters: WaiterRegistry,
    poller: Poller,
  ) {
    this.#connections = connections;
    this.#where = where;
    this.#waiters = waiters;
    this.#poller = poller;
    this.#requestTimeout = new RequestTimeout(timeoutMs);
  }

  /** `false` if it listened, and a notification of its own was not delivered. */
  get areDelivered(): boolean {
    return this.#areDelivered;
  }

  get channel(): string {
    return this.#areDelivered ? this.#channel : "";
  }

  get subscription(): number {
    return this.#isListening ? this.#subscriptions : 0;
  }

  begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#subscription = this.#subscribe();
  }

  /** The server that it listens to has turned out to be read-only: the locks are on another one by now. */
  reconnect(): void {
    this.#end();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#heartbeat);
    this.#end();
    // The caller does not wait for a notification of ours, nor for a server that does not answer.
    this.#testArrived();
    const closing = this.#subscription.then(() => this.#connections.listener.end()).catch(ignore);
    await Promise.race([closing, delay(LONGEST_CLOSING_MS)]);
  }

  async #subscribe(): Promise<void> {
    let isUndelivered = false;
    try {
      await this.#listen(await this.#connections.listener.lend());
      isUndelivered = !this.#areDelivered;
    } catch {
      // Not reachable now. The poller looks meanwhile; this is tried again.
    }
    if (this.#closed) return;
    this.#poller.enabled = true;
    // It was reset when the subscription stood, so one that breaks later is soon made anew.
    const delayMs = isUndelivered ? UNDELIVERED_RETRY_MS : this.#backoff.failedMs();
    this.#retry = startTimer(() => {
      this.#subscription = this.#subscribe();
    }, delayMs).unref();
  }

  /** Until the connection breaks, or is of no use. */
  async #listen(lent: Lent<PgClientLike>): Promise<void> {
    const { connection: client } = lent;
    let end = ignore;
    const broken = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#end = end;
    const onNotification = ({ channel, payload = "" }: PgNotification) => {
      if (channel !== this.#channel) return;
      if (payload === TEST_PAYLOAD) this.#testArrived();
      else tellClaim(this.#waiters, payload);
    };
    client.on("error", end);
    client.on("end", end);
    client.on("notification", onNotification);
    let alive = false;
    try {
      await this.#mustWrite(lent);
      await this.#ask(lent, { text: `LISTEN ${quoted(this.#channel)}` });
      const listeningMs = nowMs();
      const wereDelivered = this.#areDelivered;
      this.#areDelivered = await this.#testDelivery();
      if (!this.#areDelivered || this.#closed) {
        alive = true;
        return;
      }
      this.#backoff.reset();
      this.#poller.enabled = false;
      // What was sent before we listened is lost: all claims that have asked before ask again. While none was delivered,
      // they told the server no channel.
      this.#waiters.tellAllBefore(wereDelivered ? listeningMs : nowMs());
      this.#subscriptions++;
      this.#isListening = true;
      this.#checkHeartbeat(lent, end);
      await broken;
      alive = this.#closed;
    } finally {
      this.#isListening = false;
      this.#waiters.noneMayStay();
      clearTimeout(this.#heartbeat);
      client.removeListener("notification", onNotification);
      client.removeListener("end", end);
      // What goes back into a pool must not keep anything of ours.
      const clean =
        alive && (await this.#ask(lent, { text: `UNLISTEN ${quoted(this.#channel)}` }).then(yes, no));
      if (clean) client.removeListener("error", end);
      // Only a connection that works has shown that nothing is delivered there.
      this.#areDelivered ||= !clean;
      lent.giveBack(!clean);
    }
  }

  /**
   * Whether a notification of our own is delivered. Behind a pooler in transaction mode it is not, and neither is it
   * after a failover, if this process still listens to the old server. It is sent by another connection, or a pooler
   * might answer by the one on which it happens to listen.
   */
  async #testDelivery(): Promise<boolean> {
    let arrived = false;
    let wake = ignore;
    this.#testArrived = () => {
      arrived = true;
      wake();
    };
    try {
      const lent = await this.#connections.lend();
      const values = [this.#channel, TEST_PAYLOAD];
      const sent = await this.#ask(lent, { text: "SELECT pg_notify($1, $2)", values }).then(yes, no);
      lent.giveBack(!sent);
      if (!sent) return false;
      // Counted from here: it may have had to wait for its turn.
      const longestMs = Math.min(LONGEST_DELIVERY_MS, this.#requestTimeout.timeoutMs);
      await new Promise<void>((resolve) => {
        const timer = startTimer(resolve, arrived ? 0 : longestMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      return arrived;
    } catch {
      // Where no other connection is to be had, those that are left are needed more urgently: so it polls.
      return false;
    } finally {
      this.#testArrived = ignore;
    }
  }

  /** No request uses this connection, so a server that fell silent, or is no longer the primary, would go unnoticed. */
  #checkHeartbeat(lent: Lent<PgClientLike>, end: () => void): void {
    this.#heartbeat = startTimer(() => {
      this.#mustWrite(lent).then(() => !this.#closed && this.#checkHeartbeat(lent, end), end);
    }, HEARTBEAT * this.#requestTimeout.timeoutMs).unref();
  }

  async #mustWrite(lent: Lent<PgClientLike>): Promise<void> {
    const text = "SELECT current_setting('transaction_read_only') AS it";
    const [row] = await this.#ask(lent, { text, columns: ["it"] });
    if ((row as { readonly it?: unknown }).it === "on") throw new ReadOnlyServerError(ENGINE, this.#where);
  }

  /** Within the time that a request may take. */
  async #ask(lent: Lent<PgSession>, query: PgQuery): Promise<readonly unknown[]> {
    const asked = lent.connection.query(query);
    const late = () => {
      lent.abandon(asked);
      return lateError(ENGINE, this.#where, this.#requestTimeout.timeoutMs);
    };
    return (await this.#requestTimeout.bound(asked, asError, late)).rows;
  }
}

function ignore(): void {}
const yes = () => true;
const no = () => false;

function tellClaim(watching: WaiterRegistry, payload: string): void {
  const told = readMessage(payload, forceFrom);
  if (told !== undefined) watching.tell(told.id, told.notification);
}

/** `undefined`: not written by our routines. Every user of the database may notify a channel. */
function forceFrom(json: string): Force | undefined {
  const { reason, by } = parseForce(json) ?? {};
  const force = forceOf(reason, by);
  return force.reason === undefined ? undefined : { ...force, reason: force.reason };
}
