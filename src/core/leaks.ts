import type { Grant } from "./claim-state.js";
import { elapsedMs } from "./clock.js";
import { formatMs } from "./duration.js";
import type { About, Events } from "./events.js";
import { groupOf } from "./names.js";
import { quotedText } from "./plain-text.js";
import { ShortLivedMap } from "./short-lived.js";
import { startTimer, stopTimer } from "./timer.js";

/** What is done about a lease that its program has lost track of. */
export type OnLeak = "warn" | "release";

/** A lease that can be lost track of. */
interface Leakable {
  readonly name: string;
  readonly holds: readonly Grant[];
  giveBackLater(): () => Promise<boolean>;
}

/** What a leak is told to: the connection of the lease. */
interface Connection {
  readonly closing: AbortSignal;
  readonly events: Events;
  about(claim: Grant["claim"]): About;
  inBackground(work: Promise<unknown>): void;
  releaseFailed(claim: Grant["claim"], error: unknown): void;
}

/** All that is known of a lease, without the lease itself: that one can be collected only if nothing refers to it. */
interface Watched {
  readonly name: string;
  readonly grant: Grant;
  readonly giveBack: () => Promise<boolean>;
  readonly stack: string | undefined;
}

/**
 * Only a lease that lasts for longer is watched: to tell the garbage collector of each one costs more than all the rest
 * of a short acquire.
 */
const YOUNG_MS = 1_000;
/** As many places and names as are remembered. Beyond that, no leak is warned of. */
const MOST_WARNED = 1_000;

/**
 * Finds leases of `acquire` that were garbage-collected without a release. Nothing can release such a lease any more,
 * so it would be renewed for as long as the process lives. It stays held all the same, unless the caller has chosen
 * otherwise: the work that it was taken for may still be going on.
 */
export class Leaks {
  readonly #connection: Connection;
  readonly #onLeak: OnLeak;
  readonly #captureStacks: boolean;
  readonly #warned = new Set<string>();
  /** Leases that are not watched yet, with where they were asked for. */
  readonly #young = new ShortLivedMap<Leakable, { readonly stack?: string } | undefined>();
  #timer: NodeJS.Timeout | undefined;
  readonly #registry = new FinalizationRegistry<Watched>((watched) => this.#leaked(watched));

  constructor(connection: Connection, options: { readonly onLeak: OnLeak; readonly captureStacks: boolean }) {
    this.#connection = connection;
    this.#onLeak = options.onLeak;
    this.#captureStacks = options.captureStacks;
  }

  /** To be called where the lock is asked for: after the wait, the stack no longer leads there. */
  stackHere(below: (...args: never[]) => unknown): { readonly stack?: string } | undefined {
    if (!this.#captureStacks) return undefined;
    const here: { stack?: string } = {};
    Error.captureStackTrace(here, below);
    return here;
  }

  watch(lease: Leakable, here: { readonly stack?: string } | undefined): void {
    this.#young.set(lease, here);
    this.#timer ??= startTimer(() => this.#watchAll(), YOUNG_MS).unref();
  }

  released(lease: Leakable): void {
    if (!this.#young.delete(lease)) this.#registry.unregister(lease);
  }

  stop(): void {
    stopTimer(this.#timer);
    this.#timer = undefined;
    this.#young.clear();
  }

  /** From here on only their callers refer to them. */
  #watchAll(): void {
    this.#timer = undefined;
    for (const [lease, here] of this.#young) {
      const [grant] = lease.holds as readonly [Grant];
      const stack = here?.stack?.replace(/^.*\n/, "");
      const watched = { name: lease.name, grant, giveBack: lease.giveBackLater(), stack };
      this.#registry.register(lease, watched, lease);
    }
    this.#young.clear();
  }

  #leaked(watched: Watched): void {
    const { grant, giveBack, stack } = watched;
    // A lease that was lost, or closed, holds nothing back.
    if (grant.ended || grant.lost !== undefined || this.#connection.closing.aborted) return;
    const released = this.#onLeak === "release";
    const heldMs = elapsedMs(grant.grantedAtMs);
    this.#connection.events.emit({
      type: "leaked",
      ...this.#connection.about(grant.claim),
      token: String(grant.token),
      heldMs,
      released,
      stack,
    });
    this.#warn(watched, heldMs, released);
    if (released) this.#connection.inBackground(giveBack().catch((error) => this.#failed(grant, error)));
  }

  #failed({ claim }: Grant, error: unknown): void {
    this.#connection.releaseFailed(claim, error);
  }

  /** Once per place in the program; without stacks, once per group of names. */
  #warn({ name, grant, stack }: Watched, heldMs: number, released: boolean): void {
    const place = stack?.split("\n", 1)[0] ?? groupOf(name);
    if (this.#warned.has(place) || this.#warned.size >= MOST_WARNED) return;
    this.#warned.add(place);
    const then = released
      ? "It was released now, because of onLeak."
      : grant.claim.holdLimitMs === Infinity
        ? "It stays held, and is renewed, until this process ends."
        : "It stays held, and is renewed, until its maxHold is over.";
    const where =
      stack === undefined
        ? "To see where it was acquired: connect(url, { captureStacks: true })."
        : `It was acquired here:\n${stack}`;
    process.emitWarning(
      `a lease on ${quotedText(name)} was garbage-collected after ${formatMs(heldMs)} without being released. ${then} Release it in a finally block, use run() or "await using", or acquire it with { keep: true } if it is meant to last. ${where}`,
      { type: "LocktenderWarning", code: "LOCKTENDER_LEAK" },
    );
  }
}
