import { randomBytes } from "node:crypto";
import type { Force } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { Patience } from "../../core/patience.js";
import type { SqlBell } from "../sql/backend.js";
import { lateError } from "../sql/errors.js";
import type { Poller } from "../sql/poller.js";
import type { Lent } from "../sql/pool.js";
import { decodeText } from "../sql/replies.js";
import type { Watching } from "../sql/watching.js";
import { ENGINE, type PgClientLike, type PgNotification, type PgQuery } from "./client.js";
import { quoted } from "./dialect.js";

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;
/** Where a message of our own has not come back, it is tried again after this. */
const DEAF_RETRY_MS = 60_000;
const LONGEST_PROBE_MS = 1_000;
/** How often the connection is asked for a sign of life, in times that an answer may take. */
const PULSE = 5;
const LONGEST_GOODBYE_MS = 200;
const PROBE = "probe";

/**
 * One connection that listens for the whole process. Whoever lets a claim in rings its process only. Behind a
 * pooler in transaction mode nothing would ever be heard: so each new subscription is tried with a message of
 * our own, and while none stands, the poller looks.
 */
export class Bell implements SqlBell {
  readonly #channel = `locktender_${randomBytes(9).toString("hex")}`;
  readonly #connect: () => Promise<Lent<PgClientLike>>;
  readonly #where: string;
  readonly #watching: Watching;
  readonly #poller: Poller;
  readonly #patience: Patience;
  readonly #timeoutMs: number;
  #begun = false;
  #deaf = false;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;
  #pulse: NodeJS.Timeout | undefined;
  #failures = 0;
  #end: (() => void) | undefined;
  #standing: Promise<void> = Promise.resolve();
  #onProbe: (() => void) | undefined;

  /** `connect` gets a connection that nobody else uses. */
  constructor(
    connect: () => Promise<Lent<PgClientLike>>,
    { where, timeoutMs }: { readonly where: string; readonly timeoutMs: number },
    watching: Watching,
    poller: Poller,
  ) {
    this.#connect = connect;
    this.#where = where;
    this.#watching = watching;
    this.#poller = poller;
    this.#timeoutMs = timeoutMs;
    this.#patience = new Patience(timeoutMs);
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
    this.#standing = this.#stand();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#pulse);
    this.#end?.();
    // Whoever closes does not wait for a message of ours, nor for a server that does not answer.
    this.#onProbe?.();
    await Promise.race([this.#standing, new Promise((resolve) => setTimeout(resolve, LONGEST_GOODBYE_MS))]);
  }

  async #stand(): Promise<void> {
    let delayMs = Math.min(FIRST_RETRY_MS * 2 ** this.#failures++, LONGEST_RETRY_MS);
    try {
      await this.#listen(await this.#connect());
      if (this.#deaf) delayMs = DEAF_RETRY_MS;
      else if (this.#failures === 0) delayMs = FIRST_RETRY_MS;
    } catch {
      // Not reachable now. The poller looks meanwhile; this is tried again.
    }
    if (this.#closed) return;
    this.#poller.enabled = true;
    this.#retry = setTimeout(() => {
      this.#standing = this.#stand();
    }, delayMs).unref();
  }

  /** Until the connection breaks, or is of no use. */
  async #listen({ connection: client, giveBack }: Lent<PgClientLike>): Promise<void> {
    let end = () => {};
    const broken = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#end = end;
    const hear = (message: PgNotification) => this.#hear(message);
    client.on("error", end);
    client.on("end", end);
    client.on("notification", hear);
    let alive = false;
    try {
      await this.#ask(client, { text: `LISTEN ${quoted(this.#channel)}` });
      const listeningMs = nowMs();
      this.#deaf = !(await this.#hearsItself());
      if (this.#deaf || this.#closed) {
        alive = true;
        return;
      }
      this.#failures = 0;
      this.#poller.enabled = false;
      // What was sent before we listened is lost: all who have asked before ask again.
      this.#watching.tellAllBefore(listeningMs);
      this.#feelPulse(client, end);
      await broken;
      alive = this.#closed;
    } finally {
      clearTimeout(this.#pulse);
      client.removeListener("notification", hear);
      client.removeListener("end", end);
      // What goes back into a pool must not keep anything of ours.
      const clean =
        alive && (await this.#ask(client, { text: `UNLISTEN ${quoted(this.#channel)}` }).then(yes, no));
      if (clean) client.removeListener("error", end);
      // Only a connection that works has shown that nothing is heard there.
      this.#deaf &&= clean;
      giveBack(!clean);
    }
  }

  /** By another connection, or a pooler might answer by the one on which it happens to listen. */
  async #hearsItself(): Promise<boolean> {
    let heard = false;
    let wake = () => {};
    this.#onProbe = () => {
      heard = true;
      wake();
    };
    try {
      // Where no other connection is to be had, those that are left are needed more urgently: so it polls.
      if (!(await this.#probe().then(yes, no))) return false;
      // Counted from here: it may have had to wait for its turn.
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, heard ? 0 : Math.min(LONGEST_PROBE_MS, this.#timeoutMs));
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      return heard;
    } finally {
      this.#onProbe = undefined;
    }
  }

  async #probe(): Promise<void> {
    const { connection, giveBack } = await this.#connect();
    const values = [this.#channel, PROBE];
    const sent = this.#ask(connection, { text: "SELECT pg_notify($1, $2)", values });
    await sent.then(
      () => giveBack(false),
      (error: unknown) => {
        giveBack(true);
        throw error;
      },
    );
  }

  /** Nothing is sent on it, so nobody would notice a server that fell silent. */
  #feelPulse(client: PgClientLike, end: () => void): void {
    this.#pulse = setTimeout(() => {
      this.#ask(client, { text: "SELECT 1" }).then(() => !this.#closed && this.#feelPulse(client, end), end);
    }, PULSE * this.#timeoutMs).unref();
  }

  async #ask(client: PgClientLike, query: PgQuery): Promise<void> {
    const asked = client.query(query);
    await this.#patience.bound(
      asked,
      (error) => error as Error,
      () => lateError(ENGINE, this.#where, this.#timeoutMs),
    );
  }

  /** `<ticket> <id> ` and `granted`, `ask`, or JSON of why it was forced away; anything else is noise. */
  #hear({ channel, payload = "" }: PgNotification): void {
    if (channel !== this.#channel) return;
    if (payload === PROBE) this.#onProbe?.();
    const [, digits, id = "", rest = ""] = /^(\d+) (\S+) (.*)$/s.exec(payload) ?? [];
    if (digits === undefined) return;
    const ticket = BigInt(digits);
    const force = rest.startsWith("{") ? parseForce(rest) : undefined;
    if (rest === "granted") this.#watching.tell(id, { state: "granted", ticket });
    else if (rest === "ask") this.#watching.tell(id);
    else if (force !== undefined)
      this.#watching.tell(id, { state: "gone", loss: "forced", ticket, ...force });
  }
}

function parseForce(json: string): Force | undefined {
  try {
    const { reason, by } = JSON.parse(json) as { reason?: unknown; by?: unknown };
    if (typeof reason !== "string") return undefined;
    return { reason: decodeText(reason), ...(typeof by === "string" ? { by: decodeText(by) } : undefined) };
  } catch {
    // Not written by our routines: anybody may notify a channel.
    return undefined;
  }
}

const yes = () => true;
const no = () => false;
