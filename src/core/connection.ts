import type { Backend } from "./backend.js";
import type { Owner } from "./claim.js";
import { nowMs } from "./clock.js";
import { asLockError, LockError } from "./errors.js";
import type { About, Events, LockKind } from "./events.js";
import type { Hold } from "./hold.js";
import { Keeper } from "./keeper.js";
import { Leaks } from "./leaks.js";
import { Leftovers } from "./leftovers.js";
import { Lookout } from "./lookout.js";
import { groupOf } from "./names.js";
import { nextTurn } from "./next-turn.js";
import { pause } from "./pause.js";
import type { Place } from "./place.js";

/** Whoever gives a lock back waits while the engine may come back: for so many attempts, and for so long. */
const RELEASE_ATTEMPTS = 3;
const RELEASE_MS = 1_000;
const RELEASE_GAP_MS = 50;

/** Somebody who waits and can be told to stop. */
export interface Cancellable {
  readonly name: string;
  cancel(error: Error): void;
}

/** What all locks of one connection share: the engine, the keeper, and who is at work. */
export class Connection {
  readonly keeper: Keeper;
  readonly leaks: Leaks;
  readonly lookout = new Lookout();
  readonly waits = new Set<Cancellable>();
  readonly holds = new Set<Hold>();
  /** Calls of `run` that have not settled; each removes itself before it does. */
  readonly runs = new Set<Promise<unknown>>();
  readonly #background = new Set<Promise<unknown>>();
  readonly #onFinish: (() => void)[] = [];
  readonly #leftovers: Leftovers;
  readonly #closing = new AbortController();
  #closed = false;

  constructor(
    readonly backend: Backend,
    readonly events: Events,
    readonly owner: Owner,
    onLeaks: ConstructorParameters<typeof Leaks>[1] = { onLeak: "warn", captureStacks: false },
  ) {
    this.leaks = new Leaks(this, onLeaks);
    this.keeper = new Keeper(backend, events, (place, answer) =>
      this.lookout.expect(place.name, answer.changeInMs),
    );
    this.#leftovers = new Leftovers(backend, (request) => this.inBackground(request));
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
    if (this.closing.aborted) throw shuttingDown(name);
  }

  /** One may look until the very end. */
  assertNotClosed(name?: string): void {
    if (this.#closed) throw closedError(name);
  }

  /** No new claims from here on, and waiters stop waiting. */
  stopEntry(): void {
    this.#closing.abort(shuttingDown());
    this.#leftovers.stop();
    for (const wait of [...this.waits]) wait.cancel(shuttingDown(wait.name));
  }

  enter(place: Place): void {
    this.keeper.add(place);
    place.unwatch = this.backend.watch(place, (news) => place.ring(news));
  }

  leave(place: Place): void {
    this.keeper.remove(place);
    place.unwatch?.();
    place.unwatch = undefined;
    place.listener = undefined;
  }

  /**
   * Gives a place back, trying again while the engine may come back. What cannot be delivered now is an error,
   * and is tried again behind the scenes.
   */
  async release(place: Place): Promise<boolean> {
    const startMs = nowMs();
    const trusted = place.held && place.trusted();
    for (let attempt = 1; ; attempt++) {
      try {
        const found = await this.backend.release(place, place.ending);
        // After an attempt whose answer was lost, "not there" means that the first one did it.
        return found || (attempt > 1 && trusted);
      } catch (error) {
        const failure = asLockError(error, `could not release "${place.name}"`);
        // Whoever closes wants to go: the ttl ends what one attempt could not.
        if (!failure.retryable || this.closing.aborted) throw failure;
        const spentMs = nowMs() - startMs;
        if ((attempt >= RELEASE_ATTEMPTS && spentMs >= RELEASE_MS) || spentMs > place.ttlMs) {
          this.#leftovers.add(place);
          throw failure;
        }
        await pause(RELEASE_GAP_MS * attempt);
      }
    }
  }

  /** Whoever is not granted withdraws; a failure is an event, because the ttl ends the place anyway. */
  async withdraw(place: Place, inFlight?: Promise<unknown>): Promise<void> {
    this.leave(place);
    try {
      // A claim that is still under way would otherwise overtake its own withdrawal.
      await inFlight?.catch(() => undefined);
      await this.release(place);
    } catch (error) {
      this.releaseFailed(place, error);
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

  /** Lets work go on without anybody waiting for it, except `close`. */
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
    this.keeper.stop();
    for (const tidy of this.#onFinish) tidy();
    await this.backend.close();
  }
}

function shuttingDown(name?: string): LockError {
  const what = name === undefined ? "" : `, so "${name}" cannot be taken any more`;
  return new LockError("closed", `shutting down: close() was called on this connection${what}.`, { name });
}

function closedError(name?: string): LockError {
  const message =
    "this connection is closed: close() was called, and has ended. Make a new one with connect().";
  return new LockError("closed", message, { name });
}
