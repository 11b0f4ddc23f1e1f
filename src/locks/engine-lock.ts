import { acquire } from "../core/acquire.js";
import type { AnyLease } from "../core/any-lease.js";
import type { Ask } from "../core/ask.js";
import { nowMs } from "../core/clock.js";
import type { Connection } from "../core/connection.js";
import { type LockKind, type TraceContext, traceAcquire } from "../core/events.js";
import type { Hold } from "../core/hold.js";
import { viewOf } from "../core/inspect.js";
import type { ClaimLease, LeaseKind } from "../core/lease.js";
import { lookAt, MOST_LOOKED_AT } from "../core/look.js";
import { type AcquireOptions, type Defaults, type Read, readOptions } from "../core/options.js";
import { chainOf, heldInChain, selfDeadlock, shownHolds, upgrade } from "../core/reentry.js";
import { timeoutError } from "../core/timeout.js";
import { Holdable, type Taken } from "./lockable.js";

/** What a kind of lock asks the engine for, and what it gives to its holders. */
export interface Resource<L extends ClaimLease> {
  readonly name: string;
  readonly kind: LockKind;
  readonly weight: number;
  readonly capacity: number;
  readonly Lease: LeaseKind<L>;
}

/** A lock that is one claim at the engine. */
export class EngineLock<L extends ClaimLease> extends Holdable<L> {
  readonly name: string;
  /** @internal */
  readonly connection: Connection;
  readonly #resource: Resource<L>;
  readonly #defaults: Defaults;
  /** What is asked for without options: most calls have none. */
  readonly #plain: Read;

  constructor(connection: Connection, resource: Resource<L>, defaults: Defaults) {
    super();
    this.name = resource.name;
    this.connection = connection;
    this.#resource = resource;
    this.#defaults = defaults;
    this.#plain = readOptions(resource, {}, defaults);
  }

  /** By the own call chain if it holds this lock already, else by the engine. @internal */
  async enter(options?: AcquireOptions, besides: readonly AnyLease[] = []): Promise<L | Taken> {
    const { connection, name } = this;
    const { Lease } = this.#resource;
    const ask = options === undefined ? this.#plain : readOptions(this.#resource, options, this.#defaults);
    const within = options?.within;
    const outer = chainOf(within);
    const own = heldInChain(outer, connection, name);
    // A semaphore of that name is none of ours: the engine says so.
    if (own !== undefined && own.hold.ask.capacity === ask.capacity) {
      if (ask.weight > own.hold.ask.weight) throw upgrade(name);
      if (ask.reentrant || within)
        return (await own.reenter(Lease, outer, ask.waitMs, ask.signal)) ?? takenBy(connection, name);
      if (ask.waitMs > 0) throw selfDeadlock(name);
    }
    const hold = await granted(connection, ask, shownHolds(outer, connection, besides));
    return hold === undefined ? takenBy(connection, name) : new Lease(hold, outer);
  }
}

/** A claim at the engine, with the events that tell of it. */
export async function granted(
  connection: Connection,
  ask: Ask,
  holds: Ask["holds"],
): Promise<Hold | undefined> {
  const startMs = nowMs();
  const hold = await traced(connection, holds === undefined ? ask : { ...ask, holds });
  if (hold !== undefined && connection.events.wants("acquired")) {
    const waitedMs = nowMs() - startMs;
    connection.events.emit({
      type: "acquired",
      ...connection.about(ask),
      token: String(hold.token),
      waitedMs,
    });
  }
  return hold;
}

export function takenBy(connection: Connection, name: string): Taken {
  return {
    blockers: async () => {
      const record = await lookAt(connection, name, MOST_LOOKED_AT);
      return record === undefined ? [] : viewOf(record).holders;
    },
    told: () => timeoutError(connection, name, 0),
  };
}

function traced(connection: Connection, ask: Ask): Promise<Hold | undefined> {
  if (!traceAcquire.hasSubscribers) return acquire(connection, ask);
  const context: TraceContext = connection.about(ask);
  return traceAcquire.tracePromise(async () => {
    const hold = await acquire(connection, ask);
    if (hold !== undefined) context.token = hold.token;
    return hold;
  }, context);
}
