import { type AcquireRequest, AgreedCapacity, claimRequest, queueFull, tooSlow } from "./acquire-request.js";
import type { Answer, Gone } from "./backend.js";
import type { Owner } from "./claim.js";
import { ClaimState, type WaiterListener } from "./claim-state.js";
import { nowMs, sendingNow } from "./clock.js";
import type { Connection } from "./connection.js";
import { asLockError, type LockError } from "./errors.js";
import { POLL_MS } from "./renewer.js";
import { startTimer, stopTimer } from "./timer.js";

const FIRST_BACKOFF_MS = 20;
const LONGEST_BACKOFF_MS = 1_000;
/** So many failures alone are no outage. */
const FEWEST_FAILURES = 2;

/** Told what becomes of a claim that asks. */
export interface AskingListener {
  /** What the claim shows of its process. */
  ownerShown(request: AcquireRequest): Owner;
  granted(asking: Asking): void;
  /** A single question was refused. The engine keeps nothing. */
  refused(asking: Asking): void;
  /**
   * It was not granted, or the engine has failed to answer: it asks again later. `isNews`: the first question was
   * answered, or an outage goes on or is over.
   */
  goesOn(asking: Asking, isNews: boolean): void;
  /** It cannot be asked for any more. `kept`: the engine may have something of it. */
  failed(asking: Asking, error: unknown, kept: boolean): void;
}

/** For how long the engine has failed to answer, and the last failure. */
export interface Outage {
  readonly sinceMs: number;
  readonly failure: LockError;
  readonly failures: number;
  /** When the last question was sent that failed. */
  readonly askedMs: number;
}

/**
 * A claim on its way to the grant: it asks; sleeps until a notification, the expiry poll or a renewal says that
 * something may have changed; and asks again. A claim that is gone on the way comes back with a new id, at the end of
 * the queue. How long a caller waits for it is not decided here.
 */
export class Asking implements WaiterListener {
  readonly name: string;
  claim: ClaimState;
  /** The first question has not been answered yet. */
  unheard = true;
  answeredMs: number | undefined;
  outage: Outage | undefined;
  /** Granted by the first answer, and told since then when another process wants it. */
  tellsFromStart = false;
  readonly #connection: Connection;
  readonly #request: AcquireRequest;
  readonly #listener: AskingListener;
  /** Made when it is needed: most claims know their capacity. */
  #capacity: AgreedCapacity | undefined;
  #inFlight: Promise<Answer> | undefined;
  #isAsking = false;
  /** The renewer knows the claim, and the engine watches it. */
  #isKnown = false;
  /** How often the granted claim was an old one. */
  #replacements = 0;
  /** Since the question under way was sent. */
  #callerCame = false;
  #hasEnded = false;
  /** Among those of which one asks when the soonest claim expires. */
  #polls = false;
  #notified = false;
  #grantWasNotified = false;
  #gone: Gone | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(connection: Connection, request: AcquireRequest, listener: AskingListener) {
    this.name = request.name;
    this.#connection = connection;
    this.#request = request;
    this.#listener = listener;
    if (request.adopts !== undefined) this.#capacity = new AgreedCapacity(request);
    this.claim = this.#newClaim();
  }

  /** What the granted claim was asked with. */
  get request(): AcquireRequest {
    return this.#capacity === undefined ? this.#request : this.#capacity.request;
  }

  ask(): void {
    this.#stopTimer();
    this.#notified = false;
    // A notification that arrives while it asks still counts; an older one is overtaken by the engine's answer.
    this.#grantWasNotified = false;
    this.#isAsking = true;
    this.#callerCame = false;
    const sent = sendingNow();
    let asked: Promise<Answer>;
    try {
      if (!this.#isKnown) this.#connection.enter(this.claim);
      this.#isKnown = true;
      asked = this.#capacity?.unknown?.then(() => this.#send()) ?? this.#send();
    } catch (error) {
      asked = Promise.reject(error);
    }
    this.#inFlight = asked;
    asked.then(
      (answer) => this.#settled(() => this.#answered(answer, sent)),
      (error) => this.#settled(() => this.#askFailed(error, sent.atMs)),
    );
  }

  /** Another caller has come, who has seen nothing of an outage: it asks at once, not after its pause. */
  callerCame(): void {
    if (this.outage === undefined) return;
    if (this.#isAsking) this.#callerCame = true;
    else this.#settled(() => this.ask());
  }

  /** Whether a caller that came then has been heard: the engine has answered, or has failed to answer it. */
  hasHeard(cameMs: number): boolean {
    return this.outage === undefined ? !this.unheard : this.outage.askedMs >= cameMs;
  }

  /** From here on nothing is told of it, and it asks no more. */
  end(): void {
    this.#hasEnded = true;
    this.#stopTimer();
    if (this.#polls) this.#connection.expiryPoll.leave(this);
  }

  /** The granted claim is older than a live lease of this connection, so it must be gone: it enters the queue again. */
  replace(): void {
    this.#hasEnded = false;
    this.#connection.inBackground(this.#connection.withdraw(this.claim));
    // Servers whose tickets have gone back would grant such claims again and again, until the lease is over.
    const pauseMs = pauseAfter(this.#replacements++, this.#request.ttlMs);
    this.#settled(() => this.#reenter({ state: "gone", loss: "taken" }, pauseMs));
  }

  /** It was not granted, or not needed any more: the engine forgets it, also if its last question is under way. */
  withdraw(): Promise<void> {
    this.end();
    return this.#connection.withdraw(this.claim, this.#isAsking ? this.#inFlight : undefined);
  }

  #send(): Promise<Answer> {
    return this.#connection.backend.claim(
      claimRequest(this.#listener.ownerShown(this.request), this.request, this.claim),
    );
  }

  /** An error that is thrown on the way is one of the request: it ends the wait. */
  #settled(proceed: () => void): void {
    if (this.#hasEnded) return;
    this.#isAsking = false;
    let kept = true;
    try {
      proceed();
    } catch (error) {
      if (error instanceof NothingKept) kept = false;
      const cause = error instanceof NothingKept ? error.cause : error;
      this.end();
      this.#listener.failed(this, cause, kept);
    }
  }

  #answered(answer: Answer, sent: ReturnType<typeof sendingNow>): void {
    this.#request.onAnswer?.(answer);
    this.answeredMs = nowMs();
    switch (answer.state) {
      case "granted":
        this.claim.acknowledge(answer.ticket, answer.remainingMs, sent);
        this.#gone ??= this.claim.goneBeforeAnswer;
        this.tellsFromStart = this.unheard && answer.tells === true;
        if (!this.claim.trusted()) this.#askFailed(tooSlow(this.#request), sent.atMs);
        else if (this.#gone === undefined) this.#granted();
        // What has been taken away meanwhile is not a lease.
        else this.#reenter(this.#gone);
        break;
      case "waiting":
        this.claim.acknowledge(answer.ticket, answer.remainingMs, sent);
        this.#connection.renewer.answered(this.claim);
        this.#polls = true;
        this.#connection.expiryPoll.enter(this);
        this.#connection.expiryPoll.expect(this.name, answer.changeInMs);
        this.#goOn();
        break;
      case "refused":
        // Without a queue there is no position to lose: it asks again, as often as the engine says.
        this.#refused(answer.againInMs ?? POLL_MS);
        break;
      case "gone":
        this.#reenter(answer);
        break;
      case "capacity-mismatch":
        this.#mismatched(answer.capacity);
        break;
      default:
        throw new NothingKept(queueFull(this.#request, answer.waiters));
    }
  }

  /** By a notification, and not taken away again. */
  get #isGranted(): boolean {
    return this.#grantWasNotified && this.#gone === undefined && this.claim.trusted();
  }

  #granted(): void {
    this.end();
    this.#listener.granted(this);
  }

  #refused(againInMs: number): void {
    if (this.#request.waitMs > 0) {
      this.#goOn(againInMs);
      return;
    }
    this.end();
    this.#connection.leave(this.claim);
    this.#listener.refused(this);
  }

  /** Sleeps, unless something has changed since it asked. */
  #goOn(againInMs?: number, outage?: Outage): void {
    if (this.#isGranted) {
      this.#granted();
      return;
    }
    const isNews = this.unheard || this.outage !== undefined || outage !== undefined;
    this.unheard = false;
    this.outage = outage;
    this.#listener.goesOn(this, isNews);
    if (this.#hasEnded) return;
    if (this.#notified) this.#wake();
    else if (againInMs !== undefined) this.#again(againInMs);
  }

  /** Another capacity is in force: it agrees, waits for the claim that is just changing it, or leaves. */
  #mismatched(capacity: number): void {
    this.#capacity ??= new AgreedCapacity(this.#request);
    const againInMs = nothingKept(this.#capacity, (agreed) => agreed.mismatched(capacity));
    if (againInMs === 0) this.ask();
    else this.#refused(againInMs);
  }

  /** An outage is ridden through: each caller decides for how long. */
  #askFailed(error: unknown, sentAtMs: number): void {
    this.#request.onAnswer?.();
    const failure = asLockError(error, `could not ask for "${this.name}"`);
    if (!failure.retryable || this.#request.waitMs === 0) throw failure;
    const { sinceMs = sentAtMs, failures = 0 } = this.outage ?? {};
    // A caller that has come meanwhile has seen nothing of it yet.
    const againInMs = this.#callerCame ? 0 : pauseAfter(failures, this.#request.ttlMs);
    this.#goOn(againInMs, { sinceMs, failure, failures: failures + 1, askedMs: sentAtMs });
  }

  /** Whether the engine has not answered for longer than is bearable for a caller that came then. */
  isUnbearable(cameMs: number): boolean {
    // Making the first connection may take longer than a short ttl; that alone is no outage.
    if (this.outage === undefined || this.outage.failures <= FEWEST_FAILURES) return false;
    return nowMs() - Math.max(this.outage.sinceMs, cameMs) >= this.#request.ttlMs;
  }

  /** A ref'd timer would do no harm, but each caller that waits has one of its own. */
  #again(inMs: number): void {
    this.#timer = startTimer(() => this.ask(), inMs).unref();
  }

  #stopTimer(): void {
    if (this.#timer === undefined) return;
    stopTimer(this.#timer);
    this.#timer = undefined;
  }

  #newClaim(): ClaimState {
    const { name, kind, ttlMs, fixed, minHoldMs } = this.#request;
    // Where the grant starts a clock of its own, the engine's answer must say so; a notification cannot.
    const claim = new ClaimState(name, kind, ttlMs, fixed, !fixed && minHoldMs === 0);
    claim.waitedForBy(this);
    return claim;
  }

  /** The claim is gone, and its position lost. It never comes back: a new claim with a new id goes to the end of the queue. */
  #reenter(gone: Gone, pauseMs = 0): void {
    const about = this.#connection.about(this.#request);
    this.#connection.events.emit({ type: "queue-position-lost", ...about, reason: gone.reason });
    this.#connection.leave(this.claim);
    this.#gone = undefined;
    this.tellsFromStart = false;
    if (this.#request.onPositionLost !== undefined || gone.resize !== undefined) {
      this.#capacity ??= new AgreedCapacity(this.#request);
      nothingKept(this.#capacity, (capacity) => {
        this.#request.onPositionLost?.(gone, this.claim.ticket ?? 0n);
        capacity.positionLost(gone.resize);
      });
    }
    this.claim = this.#newClaim();
    this.#isKnown = false;
    if (pauseMs === 0) this.ask();
    else this.#again(pauseMs);
  }

  /** Something has changed while it sleeps, or while the answer to its last question is awaited. */
  #wake(): void {
    if (this.#isAsking || this.#hasEnded) return;
    this.#settled(() => {
      if (this.#isGranted) this.#granted();
      else if (this.#gone !== undefined) this.#reenter(this.#gone);
      else this.ask();
    });
  }

  notified(): void {
    this.#notified = true;
    this.#wake();
  }

  granted(): void {
    this.#grantWasNotified = true;
    this.notified();
  }

  gone(gone: Gone): void {
    this.#gone = gone;
    this.notified();
  }
}

function pauseAfter(failures: number, ttlMs: number): number {
  const longestMs = Math.min(LONGEST_BACKOFF_MS, ttlMs / 5);
  return Math.min(FIRST_BACKOFF_MS * 2 ** failures, longestMs) * (0.5 + Math.random() / 2);
}

/** The error of a question after which the engine has nothing of the claim. */
class NothingKept {
  constructor(readonly cause: unknown) {}
}

function nothingKept<T>(capacity: AgreedCapacity, act: (capacity: AgreedCapacity) => T): T {
  try {
    return act(capacity);
  } catch (error) {
    throw new NothingKept(error);
  }
}
