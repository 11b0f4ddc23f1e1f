import type { Backend } from "./backend.js";
import type { Owner } from "./claim.js";
import type { ClaimState, Grant } from "./claim-state.js";
import { nowMs } from "./clock.js";
import { asLockError, LockError } from "./errors.js";
import type { About, Events, LockKind } from "./events.js";
import { Leaks } from "./leaks.js";
import { LocalNames } from "./local-names.js";
import { groupOf } from "./names.js";
import { ExpiryPoll, Renewer } from "./renewer.js";
import { ShortLivedSet } from "./short-lived.js";
import { delay, nextTurn, startTimer, stopTimer } from "./timer.js";

/** A release waits while the engine may come back: for so many attempts, and for so long. */
const RELEASE_ATTEMPTS = 3;
const RELEASE_MS = 1_000;
const RELEASE_GAP_MS = 50;

/** A wait that can be told to stop. */
export interface Cancellable {
  readonly name: string;
  cancel(error: Error): void;
}

/** What all locks of one connection share: the engine, the renewer, its waits and its grants. */
export class Connection {
  readonly renewer: Renewer;
  readonly leaks: Leaks;
  readonly expiryPoll = new ExpiryPoll();
  readonly waits = new ShortLivedSet<Cancellable>();
  readonly grants = new ShortLivedSet<Grant>();
  readonly localNames = new LocalNames();
  /** Calls of `run` that have not settled; each removes itself before it does. */
  readonly runs = new ShortLivedSet<Promise<unknown>>();
  /** What is shown of a claim that may stay with this process. */
  readonly stickyOwner: Owner;
  readonly #background = new ShortLivedSet<Promise<unknown>>();
  readonly #onFinish: (() => void)[] = [];
  readonly #releaseRetry: ReleaseRetry;
  readonly #closing = new AbortController();
  #closed = false;
  #closedBecause = "";

  constructor(
    readonly backend: Backend,
    readonly events: Events,
    readonly owner: Owner,
    onLeaks: ConstructorParameters<typeof Leaks>[1] = { onLeak: "warn", captureStacks: false },
  ) {
    this.stickyOwner = { ...owner, sticky: true };
    this.leaks = new Leaks(this, onLeaks);
    this.renewer = new Renewer(backend, events, (claim, answer) =>
      this.expiryPoll.expect(claim.name, answer.changeInMs),
    );
    this.#releaseRetry = new ReleaseRetry(backend, (request) => this.inBackground(request));
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Aborts when closing begins: from then on no lock can be taken. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  assertOpen(name?: string): void {
    this.assertNotClosed(name);
    if (this.closing.aborted) throw this.#shuttingDown(name);
  }

  /** One may look until the very end. */
  assertNotClosed(name?: string): void {
    if (this.#closed) throw closedError(name);
  }

  /** No new claims from here on, and waiters stop waiting. */
  stopEntry(because: string): void {
    this.#closedBecause = because;
    this.#closing.abort(this.#shuttingDown());
    this.#releaseRetry.stop();
    this.localNames.releaseAllIdle();
    for (const wait of [...this.waits]) wait.cancel(this.#shuttingDown(wait.name));
  }

  #shuttingDown(name?: string): LockError {
    const what = name === undefined ? "" : `, so "${name}" cannot be taken any more`;
    return new LockError("closed", `shutting down: ${this.#closedBecause}${what}.`, { name });
  }

  enter(claim: ClaimState): void {
    this.renewer.add(claim);
    claim.unwatch = this.backend.watch(claim, (notification) => claim.notify(notification));
  }

  leave(claim: ClaimState): void {
    this.renewer.remove(claim);
    claim.unwatch?.();
    claim.unwatch = undefined;
    claim.forget();
  }

  /**
   * Gives a claim back, trying again while the engine may come back. What cannot be delivered now is an error,
   * and is tried again behind the scenes.
   */
  release(claim: ClaimState, trusted = claim.held && claim.trusted()): Promise<boolean> {
    const startMs = nowMs();
    const again = (error: unknown) => this.#releaseAgain(claim, trusted, startMs, error);
    try {
      return this.backend.release(claim, claim.ending).catch(again);
    } catch (error) {
      return again(error);
    }
  }

  async #releaseAgain(
    claim: ClaimState,
    trusted: boolean,
    startMs: number,
    firstError: unknown,
  ): Promise<boolean> {
    let error = firstError;
    for (let attempt = 1; ; attempt++) {
      const failure = asLockError(error, `could not release "${claim.name}"`);
      // A caller that closes does not wait: the ttl ends what one attempt could not.
      if (!failure.retryable || this.closing.aborted) throw failure;
      const spentMs = nowMs() - startMs;
      if ((attempt >= RELEASE_ATTEMPTS && spentMs >= RELEASE_MS) || spentMs > claim.ttlMs) {
        this.#releaseRetry.add(claim);
        throw failure;
      }
      await delay(RELEASE_GAP_MS * attempt);
      try {
        // After an attempt whose answer was lost, "not there" means that the first one did it.
        return (await this.backend.release(claim, claim.ending)) || trusted;
      } catch (failed) {
        error = failed;
      }
    }
  }

  /** A claim that is not granted is withdrawn; a failure is an event, because the ttl ends the claim anyway. */
  async withdraw(claim: ClaimState, inFlight?: Promise<unknown>): Promise<void> {
    this.leave(claim);
    try {
      // A claim that is still under way would otherwise overtake its own withdrawal. Without one, the release is sent at
      // once: the next claim of this process must not stand behind one that it gives back.
      if (inFlight !== undefined) await inFlight.catch(() => undefined);
      await this.release(claim);
    } catch (error) {
      this.releaseFailed(claim, error);
    }
  }

  releaseFailed(of: { readonly name: string; readonly kind: LockKind }, error: unknown): void {
    const failure = asLockError(error, `could not release "${of.name}"`);
    this.events.emit({ type: "release-failed", ...this.about(of), error: failure });
  }

  /** What every event about a name says. */
  about({ name, kind }: { readonly name: string; readonly kind: LockKind }): About {
    return { engine: this.backend.traits.engine, name, group: groupOf(name), kind };
  }

  /** Lets work go on in the background; only `close` waits for it. */
  inBackground(work: Promise<unknown>): void {
    const forget = () => void this.#background.delete(settled);
    const settled: Promise<void> = work.then(forget, forget);
    this.#background.add(settled);
  }

  onFinish(tidy: () => void): void {
    this.#onFinish.push(tidy);
  }

  async finish(): Promise<void> {
    // A waiter that was sent away starts to withdraw only in the turns after that.
    while (this.waits.size > 0 || this.#background.size > 0) {
      await Promise.all(this.#background);
      await nextTurn();
    }
    this.#closed = true;
    this.renewer.stop();
    this.leaks.stop();
    for (const tidy of this.#onFinish) tidy();
    await this.backend.close();
  }
}

function closedError(name?: string): LockError {
  const message =
    "this connection is closed: close() was called, and has ended. Make a new one with connect().";
  return new LockError("closed", message, { name });
}

const SHORTEST_GAP_MS = 200;
const LONGEST_GAP_MS = 5_000;

/**
 * Claims that could not be given back when their time had come, because the engine did not answer. Their ttl ends
 * them; but that may be long, and the engine may soon be back: so it is asked again and again until then. The
 * request is idempotent, and no id is used twice.
 */
class ReleaseRetry {
  readonly #backend: Backend;
  /** `close` has to wait until nothing is under way any more. */
  readonly #underWay: (request: Promise<unknown>) => void;
  readonly #timers = new Set<NodeJS.Timeout>();
  #stopped = false;

  constructor(backend: Backend, underWay: (request: Promise<unknown>) => void) {
    this.#backend = backend;
    this.#underWay = underWay;
  }

  add(claim: ClaimState): void {
    this.#later(claim, nowMs() + claim.ttlMs, SHORTEST_GAP_MS);
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) stopTimer(timer);
    this.#timers.clear();
  }

  /** Not ref'd: a process that has nothing else to do may go, and its ttl does the rest. */
  #later(claim: ClaimState, untilMs: number, gapMs: number): void {
    if (this.#stopped || nowMs() > untilMs) return;
    // Uneven, so that many do not come back at once.
    const timer = startTimer(
      () => {
        this.#timers.delete(timer);
        this.#underWay(this.#again(claim, untilMs, gapMs));
      },
      gapMs * (0.75 + Math.random() / 2),
    ).unref();
    this.#timers.add(timer);
  }

  async #again(claim: ClaimState, untilMs: number, gapMs: number): Promise<void> {
    try {
      await this.#backend.release(claim, claim.ending);
    } catch (error) {
      if (!asLockError(error, "").retryable) return;
      this.#later(claim, untilMs, Math.min(gapMs * 2, LONGEST_GAP_MS));
    }
  }
}
