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
 * Requests in the order in which this program makes them. Those for different names are at the engine at the same
 * time; only the callbacks wait for each other.
 */
export class InOrder {
  /** Every callback waits for the requests before it in here. A request leaves when it is called or has to wait. */
  readonly unsettled = new Set<Turn>();
  readonly #queues = new Map<string, NameQueue>();
  readonly #releases = new Set<Promise<void>>();

  /** Called as soon as the request is made. A request that steals does not wait: it is settled when it is called. */
  arrive(name: string, steals: boolean): Turn {
    const queue = this.#queues.get(name) ?? { asking: new FifoMutex(), standing: [], requests: 0 };
    this.#queues.set(name, queue);
    queue.requests++;
    return new Turn(this, queue, steals, () => {
      if (--queue.requests === 0) this.#queues.delete(name);
    });
  }

  /** Until the engine has heard what was asked for and given back so far. */
  async heard(): Promise<void> {
    if (this.unsettled.size > 0) {
      const turn = new Turn(this, undefined, false);
      await turn.first();
      turn.end();
    }
    await Promise.all(this.#releases);
  }

  /** A lock is being given back until the answer is called. */
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
    for (const turn of this.unsettled) {
      if (!turn.settled) {
        turn.goOn();
        return;
      }
      this.unsettled.delete(turn);
    }
  }

  /** The engine takes too long to answer those before this one: they hold up no request any more. */
  passOver(turn: Turn): void {
    if (!this.unsettled.has(turn)) return;
    for (const earlier of [...this.unsettled]) {
      if (earlier === turn) return;
      this.unsettled.delete(earlier);
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
    order.unsettled.add(this);
  }

  /** Until the requests of the same name before it have been answered. */
  async toAsk(signal: AbortSignal | undefined, closing: AbortSignal): Promise<void> {
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
    this.#order.unsettled.delete(this);
    this.#order.advance();
  }

  /** Until its callback may be called. */
  async first(): Promise<void> {
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
    this.#order.unsettled.delete(this);
    this.#order.advance();
    this.#onEnd?.();
  }

  goOn(): void {
    this.#goOn?.();
  }

  #isFirst(): boolean {
    const { unsettled } = this.#order;
    const [first] = unsettled;
    if (unsettled.has(this) && first !== this) return false;
    return this.ticket === undefined || this.#queue?.standing[0] === this;
  }

  /** Says whether something has changed, or else it has waited for too long. */
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
