import { randomInt } from "node:crypto";
import { lookForSleepMs, nowMs, type Sent } from "../../core/clock.js";
import type { LockError } from "../../core/errors.js";
import { startTimer } from "../../core/timer.js";
import { describeHosts } from "../../engine-kit/url.js";
import { closedError, refusal, refusalCode, unreachable } from "./errors.js";
import { closeSession, ERROR, type Handshake, type Request } from "./messages.js";
import type { ZooKeeperSettings } from "./options.js";
import { Wire } from "./wire.js";

const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 500;
const ENDINGS: ReadonlySet<number | undefined> = new Set([
  ERROR.sessionExpired,
  ERROR.authFailed,
  ERROR.authRequired,
]);

export type OnChange = (deleted: boolean) => void;

export interface ClientEvents {
  /** Connected again: all watches are gone, and what was pending at the break has been or never will be done. */
  reattached(): void;
  /** The session is over, and with it all its nodes. */
  gone(): void;
}

/**
 * A session with an ensemble, on one connection at a time. When that breaks, the session is taken to the next
 * server. A session that was connected nowhere for as long as it lives is given up.
 */
export class Client {
  readonly timeoutMs: number;
  readonly id: bigint;
  readonly #settings: ZooKeeperSettings;
  readonly #where: string;
  readonly #password: Buffer;
  readonly #trust: SessionTrust;
  readonly #watches = new Map<string, Set<OnChange>>();
  events: ClientEvents | undefined;
  #wire: Wire | undefined;
  #lastZxid = 0n;
  #server: number;
  #attachedMs = nowMs();
  /** How many times in a row a connection did not last. */
  #briefly = 0;
  /** Requests that come while it is not connected. */
  readonly #waiting = new Set<{ attached(): void; failed(error: LockError): void }>();
  #over: LockError | undefined;

  private constructor(
    settings: ZooKeeperSettings,
    session: Omit<Handshake, "lastZxid">,
    server: number,
    sent: Sent,
  ) {
    this.#settings = settings;
    this.#where = describeHosts(settings.address);
    this.timeoutMs = session.timeoutMs;
    this.id = session.sessionId;
    this.#password = session.password;
    this.#server = server;
    this.#trust = new SessionTrust(session.timeoutMs);
    this.#trust.attached(sent);
    // Making a session takes a majority.
    this.#trust.proven(sent);
  }

  /** A new session, at the first server that gives one. The servers decide how long it lives without being heard of. */
  static async open(settings: ZooKeeperSettings, askedMs: number): Promise<Client> {
    const { hosts } = settings.address;
    const deadlineMs = nowMs() + settings.timeoutMs;
    const handshake = { lastZxid: 0n, timeoutMs: askedMs, sessionId: 0n, password: Buffer.alloc(16) };
    // So that not all clients are at the same server.
    const first = randomInt(hosts.length);
    let failure = unreachable(describeHosts(settings.address), "no answer in time.");
    for (let attempt = 0; attempt < hosts.length; attempt++) {
      const server = first + attempt;
      const host = hosts[server % hosts.length];
      const limitMs = (deadlineMs - nowMs()) / (hosts.length - attempt);
      if (host === undefined || limitMs <= 0) break;
      try {
        const opened = await Wire.open(settings, host, handshake, limitMs);
        if (opened === undefined) continue;
        const client = new Client(settings, opened.session, server, opened.sent);
        client.#attach(opened.wire);
        return client;
      } catch (error) {
        failure = error as LockError;
      }
    }
    throw failure;
  }

  get gone(): boolean {
    return this.#over !== undefined;
  }

  /** On our monotonic clock: before it the session is certainly alive, if it was not ended by us. */
  get trustedUntilMs(): number {
    return this.#over === undefined ? this.#trust.deadlineMs : -Infinity;
  }

  send<T>(request: Request<T>): Promise<T> {
    if (this.#over !== undefined) return Promise.reject(this.#over);
    return this.#wire === undefined ? this.#sendLater(request) : this.#wire.send(request);
  }

  /** Waits until it is connected again, but not for longer than it takes to find that no server is there. */
  async #sendLater<T>(request: Request<T>): Promise<T> {
    await new Promise<void>((resolve, reject) => {
      const { timeoutMs } = this.#settings;
      // A timer that keeps the process alive, as every request does.
      const late = () => waiting.failed(unreachable(this.#where, `not connected for ${timeoutMs} ms.`));
      const timer = startTimer(late, timeoutMs);
      const end = (settle: () => void) => {
        clearTimeout(timer);
        this.#waiting.delete(waiting);
        settle();
      };
      const waiting = {
        attached: () => end(resolve),
        failed: (error: LockError) => end(() => reject(error)),
      };
      this.#waiting.add(waiting);
    });
    return this.send(request);
  }

  /** For the next change of a node that was read with a watch; not told of the end of the connection. */
  watch(path: string, on: OnChange): () => void {
    const watching = this.#watches.get(path) ?? new Set();
    this.#watches.set(path, watching.add(on));
    return () => {
      watching.delete(on);
      if (watching.size === 0 && this.#watches.get(path) === watching) this.#watches.delete(path);
    };
  }

  /** Ends the session at once; or only stops, and it ends by itself when its time is over. */
  async close(endIt: boolean): Promise<void> {
    const wire = this.#wire;
    if (this.#over !== undefined) return;
    if (endIt && wire !== undefined) await wire.send(closeSession()).catch(() => undefined);
    this.#end(closedError());
  }

  #attach(wire: Wire): void {
    this.#wire = wire;
    wire.listen({
      answered: (sent) => this.#trust.answered(sent),
      proven: (sent) => this.#trust.proven(sent),
      changed: (path, deleted) => this.#changed(path, deleted),
      lost: (error) => this.#lost(wire, error),
    });
  }

  #changed(path: string, deleted: boolean): void {
    const watching = this.#watches.get(path);
    this.#watches.delete(path);
    for (const on of watching ?? []) on(deleted);
  }

  #lost(wire: Wire, error: LockError): void {
    if (this.#wire !== wire) return;
    this.#wire = undefined;
    this.#lastZxid = wire.lastZxid;
    this.#watches.clear();
    if (this.#over !== undefined) return;
    // It is over; and a client that is not let in will not be let in by trying again.
    if (ENDINGS.has(refusalCode(error))) this.#end(error);
    else void this.#reattach();
  }

  /**
   * The next server closes the session's connection to any other, or its leader refuses what still comes from
   * there (SessionMoved). So when this returns, requests of before that were not answered have been executed or
   * never will be, and a write that is sent from now on is ordered after them.
   */
  async #reattach(): Promise<void> {
    const { hosts } = this.#settings.address;
    const lostMs = nowMs();
    // One that lets us in and closes at once would otherwise keep us busy.
    if (lostMs - this.#attachedMs < LONGEST_PAUSE_MS) await pause(++this.#briefly);
    else this.#briefly = 0;
    for (let attempt = 1; this.#over === undefined; attempt++) {
      const restMs = lostMs + this.timeoutMs - nowMs();
      if (restMs <= 0) break;
      const host = hosts[++this.#server % hosts.length];
      const handshake = {
        lastZxid: this.#lastZxid,
        timeoutMs: this.timeoutMs,
        sessionId: this.id,
        password: this.#password,
      };
      try {
        if (host === undefined) break;
        const limitMs = Math.min(restMs, this.#settings.timeoutMs, Math.max(100, this.timeoutMs / 4));
        const opened = await Wire.open(this.#settings, host, handshake, limitMs);
        if (opened === undefined) break;
        if (this.#over !== undefined) {
          opened.wire.close(closedError());
          return;
        }
        if (opened.session.timeoutMs < this.timeoutMs) {
          // By taking it over, a server that allows less has cut short what others were promised of it.
          opened.wire.close(closedError());
          break;
        }
        this.#trust.attached(opened.sent);
        this.#attachedMs = nowMs();
        this.#attach(opened.wire);
        for (const { attached } of [...this.#waiting]) attached();
        this.events?.reattached();
        return;
      } catch (error) {
        // One server that is down says nothing of the others.
        if (attempt % hosts.length === 0) this.#tellWaiting(error as LockError);
      }
      if (attempt % hosts.length === 0) await pause(attempt / hosts.length);
    }
    this.#end(refusal(ERROR.sessionExpired, this.#where));
  }

  #tellWaiting(error: LockError): void {
    for (const { failed } of [...this.#waiting]) failed(error);
  }

  #end(error: LockError): void {
    if (this.#over !== undefined) return;
    this.#over = error;
    this.#tellWaiting(error);
    this.#watches.clear();
    this.#wire?.close(error);
    this.#wire = undefined;
    this.events?.gone();
  }
}

/** After each round in vain a longer one; it does not keep the process alive. */
function pause(rounds: number): Promise<void> {
  const ms = Math.min(FIRST_PAUSE_MS * 2 ** (rounds - 1), LONGEST_PAUSE_MS) * (0.5 + Math.random() / 2);
  return new Promise((resolve) => void startTimer(resolve, ms).unref());
}

/**
 * Until when a session may be trusted to be alive. Servers answer pings and reads by themselves, also when they
 * are cut off from their leader, so only an acknowledged write counts, from the moment of its sending. And the
 * leader hears of a session only from the server that it is connected to, in the answers to its own pings: every
 * half tick, and a session lasts at least two ticks. So what it surely has heard of is what that server had
 * answered a quarter of the timeout before the write was sent, and from the sending of that the session lasts for
 * its timeout. The wire sees to it that this is at most another twelfth earlier, so two thirds are left.
 */
export class SessionTrust {
  readonly #timeoutMs: number;
  #deadlineMs = -Infinity;
  /** How long the machine had slept when the write that counts was sent. */
  #sleptMs = 0;
  /** What the leader itself was asked: to make the session, or to take it over to another server. */
  #attached: Sent = { atMs: -Infinity, sleptMs: 0 };
  /** What was answered since then, and when, the oldest first. */
  readonly #answered: { readonly sent: Sent; readonly atMs: number }[] = [];

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  /** On our monotonic clock, which stands still while the machine sleeps: that brings it nearer. */
  get deadlineMs(): number {
    return this.#deadlineMs - (lookForSleepMs() - this.#sleptMs);
  }

  attached(sent: Sent): void {
    this.#attached = sent;
    this.#answered.length = 0;
  }

  /** Anything that was sent then has been answered. */
  answered(sent: Sent, atMs = nowMs()): void {
    const answered = this.#answered;
    // Of a busy connection not all of it is remembered.
    if (sent.atMs - (answered.at(-1)?.sent.atMs ?? -Infinity) < this.#timeoutMs / 100) return;
    answered.push({ sent, atMs });
    while ((answered[0]?.sent.atMs ?? Infinity) < atMs - this.#timeoutMs) answered.shift();
  }

  /** A write that was sent then has been acknowledged. */
  proven({ atMs, sleptMs }: Sent): void {
    const heardByMs = atMs - this.#timeoutMs / 4;
    const heard = this.#answered.findLast((one) => one.atMs <= heardByMs)?.sent ?? this.#attached;
    const livesUntilMs = heard.atMs + this.#timeoutMs - (sleptMs - heard.sleptMs);
    const untilMs = Math.min(atMs + (this.#timeoutMs * 2) / 3, livesUntilMs);
    if (untilMs + sleptMs <= this.#deadlineMs + this.#sleptMs) return;
    this.#deadlineMs = untilMs;
    this.#sleptMs = sleptMs;
  }
}
