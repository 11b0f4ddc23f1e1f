import type { AnyLease } from "./any-lease.js";
import { nowMs } from "./clock.js";
import type { Connection } from "./connection.js";
import { formatMs } from "./duration.js";
import type { Hold } from "./hold.js";
import { quotedText } from "./plain-text.js";

/** What is done about a lease that its program has lost track of. */
export type OnLeak = "warn" | "release";

/** All that is known of a lease, without the lease itself: that one can be collected only if nothing refers to it. */
interface Watched {
  readonly name: string;
  readonly hold: Hold;
  readonly giveBack: () => Promise<boolean>;
  readonly stack: string | undefined;
}

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

  watch(lease: AnyLease, here: { readonly stack?: string } | undefined): void {
    const [hold] = lease.holds as readonly [Hold];
    const stack = here?.stack?.replace(/^.*\n/, "");
    this.#registry.register(lease, { name: lease.name, hold, giveBack: lease.giveBackLater(), stack }, lease);
  }

  released(lease: AnyLease): void {
    this.#registry.unregister(lease);
  }

  #leaked({ name, hold, giveBack, stack }: Watched): void {
    // A lease that was lost, or closed, holds nothing back.
    if (hold.ended || hold.lost !== undefined || this.#connection.closing.aborted) return;
    const released = this.#onLeak === "release";
    const heldMs = nowMs() - hold.grantedAtMs;
    this.#connection.events.emit({
      type: "leaked",
      ...this.#connection.about(hold.place),
      token: String(hold.token),
      heldMs,
      released,
      stack,
    });
    this.#warn(name, heldMs, released, stack);
    if (released) this.#connection.inBackground(giveBack().catch((error) => this.#failed(hold, error)));
  }

  #failed({ place }: Hold, error: unknown): void {
    this.#connection.releaseFailed(place, error);
  }

  /** Once per place in the program; without stacks, once per name. */
  #warn(name: string, heldMs: number, released: boolean, stack: string | undefined): void {
    const place = stack?.split("\n", 1)[0] ?? name;
    if (this.#warned.has(place) || this.#warned.size >= MOST_WARNED) return;
    this.#warned.add(place);
    const then = released
      ? "It was released now, because of onLeak."
      : "It stays held, and is renewed, until this process ends.";
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
