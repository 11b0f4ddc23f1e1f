import { randomBytes } from "node:crypto";
import type { Force } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { startTimer } from "../../core/timer.js";
import { parseForce } from "../../engine-kit/claim-metadata.js";
import { Backoff } from "../../engine-kit/request-timeout.js";
import type { SqlNotifications } from "../sql/backend.js";
import { ReadOnlyServerError } from "../sql/errors.js";
import type { Poller } from "../sql/poller.js";
import type { Lent } from "../sql/pool.js";
import { forceOf } from "../sql/replies.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";
import type { ListenerPool } from "./client.js";
import { quoted } from "./dialect.js";
import { ENGINE } from "./errors.js";
import type { PgClientLike, PgNotification, PgSession } from "./library.js";
import { BoundedAsking, PROBE, Probe, type ProbeSettings } from "./probe.js";

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** Where a message of our own has not come back, it is tried again after this. */
const DEAF_RETRY_MS = 60_000;
/** How often the connection is asked for a sign of life, in times that an answer may take. */
const PULSE = 5;
const LONGEST_CLOSING_MS = 200;

interface Connections {
  /** The one that listens. */
  readonly listener: ListenerPool;
  /** Another one, for a moment. */
  lend(): Promise<Lent<PgSession>>;
}

/**
 * One connection that listens for the whole process. The request by which a claim is granted notifies the process of
 * that claim only. Behind a pooler in transaction mode no message would ever arrive: so each new subscription is
 * tried with a message of our own, and while there is none, the poller looks.
 */
export class Notifications implements SqlNotifications {
  readonly #channel = newChannel();
  readonly #connections: Connections;
  readonly #where: string;
  readonly #watching: WaiterRegistry;
  readonly #poller: Poller;
  readonly #asking: BoundedAsking;
  readonly #probe: Probe;
  readonly #timeoutMs: number;
  #begun = false;
  #deaf = false;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;
  #pulse: NodeJS.Timeout | undefined;
  readonly #backoff = new Backoff(FIRST_RETRY_MS, LONGEST_RETRY_MS);
  #end: (() => void) | undefined;
  #subscription: Promise<void> = Promise.resolve();

  constructor(connections: Connections, settings: ProbeSettings, watching: WaiterRegistry, poller: Poller) {
    this.#connections = connections;
    this.#where = settings.where;
    this.#watching = watching;
    this.#poller = poller;
    this.#timeoutMs = settings.timeoutMs;
    this.#asking = new BoundedAsking(settings);
    this.#probe = new Probe(this.#channel, connections.lend, settings);
  }

  /** It listened, and did not hear itself. */
  get deaf(): boolean {
    return this.#deaf;
  }

  get channel(): string {
    return this.#deaf ? "" : this.#channel;
  }

  begin(): void {
    if (this.#begun) return;
    this.#begun = true;
    this.#subscription = this.#subscribe();
  }

  /** The server that it listens to has turned out to be read-only: the locks are on another one by now. */
  reconnect(): void {
    this.#end?.();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#pulse);
    this.#end?.();
    // The caller does not wait for a message of ours, nor for a server that does not answer.
    this.#probe.came();
    const closing = this.#subscription.then(() => this.#connections.listener.end()).catch(ignore);
    await Promise.race([
      closing,
      new Promise((resolve) => startTimer(() => resolve(undefined), LONGEST_CLOSING_MS)),
    ]);
  }

  async #subscribe(): Promise<void> {
    let isDeaf = false;
    try {
      await this.#listen(await this.#connections.listener.lend());
      isDeaf = this.#deaf;
    } catch {
      // Not reachable now. The poller looks meanwhile; this is tried again.
    }
    if (this.#closed) return;
    this.#poller.enabled = true;
    // It was reset when the subscription stood, so one that breaks later is soon made anew.
    const delayMs = isDeaf ? DEAF_RETRY_MS : this.#backoff.failedMs();
    this.#retry = startTimer(() => {
      this.#subscription = this.#subscribe();
    }, delayMs).unref();
  }

  /** Until the connection breaks, or is of no use. */
  async #listen(lent: Lent<PgClientLike>): Promise<void> {
    const { connection: client } = lent;
    let end = () => {};
    const broken = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#end = end;
    const hear = ({ channel, payload = "" }: PgNotification) => {
      if (channel !== this.#channel) return;
      if (payload === PROBE) this.#probe.came();
      else tellClaim(this.#watching, payload);
    };
    client.on("error", end);
    client.on("end", end);
    client.on("notification", hear);
    let alive = false;
    try {
      await this.#mustWrite(lent);
      await this.#asking.ask(lent, { text: `LISTEN ${quoted(this.#channel)}` });
      const listeningMs = nowMs();
      const wasDeaf = this.#deaf;
      this.#deaf = !(await this.#probe.isHeard());
      if (this.#deaf || this.#closed) {
        alive = true;
        return;
      }
      this.#backoff.reset();
      this.#poller.enabled = false;
      // What was sent before we listened is lost: all claims that have asked before ask again. While it was deaf, they
      // told the server no channel.
      this.#watching.tellAllBefore(wasDeaf ? nowMs() : listeningMs);
      this.#checkHeartbeat(lent, end);
      await broken;
      alive = this.#closed;
    } finally {
      clearTimeout(this.#pulse);
      client.removeListener("notification", hear);
      client.removeListener("end", end);
      // What goes back into a pool must not keep anything of ours.
      const clean =
        alive && (await this.#asking.ask(lent, { text: `UNLISTEN ${quoted(this.#channel)}` }).then(yes, no));
      if (clean) client.removeListener("error", end);
      // Only a connection that works has shown that nothing is heard there.
      this.#deaf &&= clean;
      lent.giveBack(!clean);
    }
  }

  /** No request uses this connection, so a server that fell silent, or is no longer the primary, would go unnoticed. */
  #checkHeartbeat(lent: Lent<PgClientLike>, end: () => void): void {
    this.#pulse = startTimer(() => {
      this.#mustWrite(lent).then(() => !this.#closed && this.#checkHeartbeat(lent, end), end);
    }, PULSE * this.#timeoutMs).unref();
  }

  async #mustWrite(lent: Lent<PgClientLike>): Promise<void> {
    const text = "SELECT current_setting('transaction_read_only') AS it";
    const [row] = await this.#asking.ask(lent, { text, columns: ["it"] });
    if ((row as { readonly it?: unknown }).it === "on") throw new ReadOnlyServerError(ENGINE, this.#where);
  }
}

const ignore = () => {};
const yes = () => true;
const no = () => false;

/** Where one process listens. */
function newChannel(): string {
  return `locktender_${randomBytes(9).toString("hex")}`;
}

/** `<ticket> <id> ` and `granted`, `ask`, or JSON of why it was forced away; anything else is noise. */
function tellClaim(watching: WaiterRegistry, payload: string): void {
  const [, digits, id = "", rest = ""] = /^(\d+) (\S+) (.*)$/s.exec(payload) ?? [];
  if (digits === undefined) return;
  const ticket = BigInt(digits);
  const force = rest.startsWith("{") ? forceFrom(rest) : undefined;
  if (rest === "granted") watching.tell(id, { state: "granted", ticket });
  else if (rest === "ask") watching.tell(id);
  else if (force !== undefined) watching.tell(id, { state: "gone", loss: "forced", ticket, ...force });
}

/** `undefined`: not written by our routines. Every user of the database may notify a channel. */
function forceFrom(json: string): Force | undefined {
  const { reason, by } = parseForce(json) ?? {};
  const force = forceOf(reason, by);
  return force.reason === undefined ? undefined : { ...force, reason: force.reason };
}
