import type { Answer, Backend } from "../core/backend.js";
import { FifoMutex } from "../core/concurrency.js";
import type { Connection } from "../core/connection.js";
import { startTimer, stopTimer } from "../core/timer.js";

/** A request that the engine does not answer holds up the callbacks of later requests no longer than this. */
const LONGEST_MS = 1_000;

const ofBackends = new WeakMap<Backend, InOrder>();

/** Shared by all that use the same backend. */
export function inOrderOf({ backend }: Connection): InOrder {
  const known = ofBackends.get(backend) ?? new InOrder();
  ofBackends.set(backend, known);
  return known;
}

/** The requests of this program for one name. */
interface NameQueue {
  /** They come to the engine one after the other, so that their tickets have the order of the requests. */
  readonly asking: FifoMutex;
  /** Those that have a ticket and wait for their callback, in the order of the tickets. */
  readonly standing: Turn[];
  requests: number;
}

/**
 * For Web Locks: calls the callbacks of `request()` in the order in which this program has made the requests. Requests
 * for different names are at the engine at the same time; only the callbacks wait for each other.
 */
export class InOrder {
  /**
   * Requests whose callbacks have to start in this order. One leaves when its callback has started, when it has failed,
   * or when it is the first and has to wait for its lock.
   */
  readonly ordered = new Set<Turn>();
  readonly #queues = new Map<string, NameQueue>();
  readonly #releases = new Set<Promise<void>>();

  /**
   * Called as soon as the request is made. `steals`: an answer `waiting` does not let later callbacks start first,
   * because the lock is about to be taken for this one.
   */
  arrive(name: string, steals: boolean): Turn {
    const queue = this.#queues.get(name) ?? { asking: new FifoMutex(), standing: [], requests: 0 };
    this.#queues.set(name, queue);
    queue.requests++;
    return new Turn(this, queue, steals, () => {
      if (--queue.requests === 0) this.#queues.delete(name);
    });
  }

  /**
   * Waits until the engine has answered all earlier requests, for `LONGEST_MS` at most, and all releases that are under
   * way.
   */
  async heard(): Promise<void> {
    if (this.ordered.size > 0) {
      const turn = new Turn(this, undefined, false);
      await turn.waitToBeFirst();
      turn.end();
    }
    await Promise.all(this.#releases);
  }

  /** A release begins. The returned function is called when it has ended. */
  releasing(): () => void {
    let done = () => {};
    const release = new Promise<void>((resolve) => {
      done = resolve;
    });
    this.#releases.add(release);
    return () => {
      this.#releases.delete(release);
      done();
    };
  }

  /** Lets the first one go on, if it waits for that. */
  advance(): void {
    for (const turn of this.ordered) {
      if (!turn.settled) {
        turn.goOn();
        return;
      }
      this.ordered.delete(turn);
    }
  }

  /** The engine takes too long to answer those before this one: they hold up no request any more. */
  passOver(turn: Turn): void {
    if (!this.ordered.has(turn)) return;
    for (const earlier of [...this.ordered]) {
      if (earlier === turn) return;
      this.ordered.delete(earlier);
      earlier.goOn();
    }
  }
}

/** One request, from when it is made until its callback is called or it fails. */
export class Turn {
  settled = false;
  ticket: bigint | undefined;
  readonly #order: InOrder;
  readonly #queue: NameQueue | undefined;
  readonly #steals: boolean;
  readonly #onEnd: (() => void) | undefined;
  #endAsking: (() => void) | undefined;
  #goOn: (() => void) | undefined;

  constructor(order: InOrder, queue: NameQueue | undefined, steals: boolean, onEnd?: () => void) {
    this.#order = order;
    this.#queue = queue;
    this.#steals = steals;
    this.#onEnd = onEnd;
    order.ordered.add(this);
  }

  /** Waits until the requests of the same name before it have been answered. */
  async waitToAsk(signal: AbortSignal | undefined, closing: AbortSignal): Promise<void> {
    this.#endAsking = await this.#queue?.asking.take(Infinity, signal, () => closing);
  }

  /** The engine has answered, or has failed to. */
  answered(answer: Answer | undefined): void {
    this.#endAsking?.();
    this.#endAsking = undefined;
    if (answer?.state === "granted" || answer?.state === "waiting") this.#stand(answer.ticket);
    if (answer !== undefined && (answer.state !== "waiting" || this.#steals)) return;
    this.settled = true;
    this.#order.advance();
  }

  /** It has to enter the queue again, behind all others. */
  positionLost(): void {
    this.#leaveQueue();
    this.#order.ordered.delete(this);
    this.#order.advance();
  }

  /** Waits until its callback may be called. */
  async waitToBeFirst(): Promise<void> {
    // If it was settled before, because it had to wait: no later one overtakes it now.
    this.settled = false;
    while (!this.#isFirst()) {
      if (await this.#wait()) continue;
      this.#order.passOver(this);
      return;
    }
  }

  /** Its callback has been called, or never will be. */
  end(): void {
    this.#endAsking?.();
    this.#leaveQueue();
    this.#order.ordered.delete(this);
    this.#order.advance();
    this.#onEnd?.();
  }

  goOn(): void {
    this.#goOn?.();
  }

  #isFirst(): boolean {
    const { ordered } = this.#order;
    const [first] = ordered;
    if (ordered.has(this) && first !== this) return false;
    return this.ticket === undefined || this.#queue?.standing[0] === this;
  }

  /** Resolves to true if something has changed, to false after `LONGEST_MS`. */
  #wait(): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (changed: boolean) => {
        stopTimer(timer);
        this.#goOn = undefined;
        resolve(changed);
      };
      const timer = startTimer(() => end(false), LONGEST_MS);
      this.#goOn = () => end(true);
    });
  }

  #stand(ticket: bigint): void {
    if (ticket === this.ticket) return;
    this.#leaveQueue();
    this.ticket = ticket;
    const standing = this.#queue?.standing ?? [];
    let at = standing.length;
    // Nearly always the last one. A request that lost its position may get its new ticket late.
    while (at > 0 && (standing[at - 1]?.ticket ?? 0n) > ticket) at--;
    standing.splice(at, 0, this);
  }

  #leaveQueue(): void {
    if (this.ticket === undefined) return;
    this.ticket = undefined;
    const standing = this.#queue?.standing ?? [];
    const at = standing.indexOf(this);
    standing.splice(at, 1);
    if (at === 0) standing[0]?.goOn();
  }
}
