import { hostname } from "node:os";
import type { Traits } from "../core/backend.js";
import type { Owner } from "../core/claim.js";
import { type Duration, durationMs } from "../core/duration.js";
import { invalidOption, LockError } from "../core/errors.js";
import type { LockEventListener } from "../core/events.js";
import type { Leaks, OnLeak } from "../core/leaks.js";
import {
  flag,
  isObject,
  knownOptions,
  maxHoldOption,
  noteText,
  ttlOption,
  waitOption,
} from "../core/options.js";
import type { CloseOptions, CloseSignal } from "./close.js";
import type { Times } from "./mutex.js";

/** What is set for all locks of a connection. An option that is not known is an error. */
export interface LocksOptions {
  /**
   * How long a claim lives without being renewed, so how long others wait after a crash; `"15s"` if not given. From 20 ms
   * to 24 h; some engines allow less.
   */
  readonly ttl?: Duration | undefined;
  /** How long to wait for a lock; `"30s"` if not given, `Infinity` for ever. */
  readonly wait?: Duration | undefined;
  /** Strict arrival order across processes for every mutex that does not say otherwise; `false` if not given. */
  readonly fair?: boolean | undefined;
  /**
   * What others see of this process, in `inspect` and in their timeout errors. It decides nothing.
   *
   * @example
   * ```ts
   * import { connect } from "locktender";
   *
   * const locks = await connect("memory:", { owner: { service: "checkout", version: "1.4.2" } });
   * ```
   */
  readonly owner?:
    | {
        /** The name of the program. */
        readonly service?: string | undefined;
        /** Tells processes apart; the name of the machine and the number of the process if not given. */
        readonly instance?: string | undefined;
        /** Of the program. */
        readonly version?: string | undefined;
      }
    | undefined;
  /**
   * Refuse an engine that cannot promise this: the error is `unsupported`, before any lock is taken.
   *
   * @example
   * ```ts
   * import { connect } from "locktender";
   *
   * const locks = await connect("memory:", { require: { fencing: true, queueing: true } });
   * ```
   */
  readonly require?:
    | {
        /** Every exclusive grant carries a token greater than all before it. */
        readonly fencing?: true | undefined;
        /** Waiters keep their position, and are served first come, first served. */
        readonly queueing?: true | undefined;
      }
    | undefined;
  /** No lease is held longer than this, unless `acquire` or `run` says otherwise; leaders and `keep` are not meant. */
  readonly maxHold?: Duration | undefined;
  /** What others see of claims that have no note of their own. */
  readonly note?: string | undefined;
  /** After how long the event `long-hold` tells of a lease; `"1m"` if not given. */
  readonly longHold?: Duration | undefined;
  /**
   * What to do about a lease of `acquire` that was garbage-collected without a release: `"warn"`, or `"release"` it as
   * well, where the work cannot outlive its lease object; `"warn"` if not given.
   */
  readonly onLeak?: OnLeak | undefined;
  /** Whether such a warning shows where the lease was acquired; `true` if NODE_ENV is "development". */
  readonly captureStacks?: boolean | undefined;
  /**
   * Called at every event, for logs and metrics. If it throws, no lock is broken.
   *
   * @example
   * ```ts
   * import { connect } from "locktender";
   *
   * const locks = await connect("memory:", {
   *   onEvent: (event) => {
   *     if (event.type === "lost") console.error(`${event.name} lost: ${event.loss}`);
   *   },
   * });
   * ```
   */
  readonly onEvent?: LockEventListener | undefined;
  /**
   * On SIGTERM and SIGINT, do what `close` does, then let the process end as it would have. A list names the
   * signals; an object has the times of `close`.
   *
   * @example
   * ```ts
   * import { connect } from "locktender";
   *
   * const locks = await connect("memory:", { closeOnSignals: { drain: "10s" } });
   * ```
   */
  readonly closeOnSignals?: true | readonly CloseSignal[] | CloseOptions | undefined;
}

export const DEFAULT_TTL = "15s";

export const LOCKS_OPTIONS: ReadonlySet<string> = new Set([
  "ttl",
  "wait",
  "fair",
  "owner",
  "require",
  "maxHold",
  "note",
  "longHold",
  "onLeak",
  "captureStacks",
  "onEvent",
  "closeOnSignals",
] satisfies (keyof LocksOptions)[]);

/** What is set for all locks of a connection. */
export function readDefaults({ ttl, wait, fair, maxHold, longHold, note }: LocksOptions): Times {
  return {
    ttlMs: ttlOption(ttl ?? DEFAULT_TTL),
    waitMs: waitOption(wait ?? "30s"),
    fair: fair !== undefined && flag("fair", fair),
    maxHoldMs: maxHold === undefined ? Infinity : maxHoldOption(maxHold),
    longHoldMs: durationMs("longHold", longHold ?? "1m", { minMs: 1, infinite: true }),
    note: note === undefined ? "" : noteText(note),
    reentrant: false,
    maxWaiters: undefined,
    stickyMs: 0,
  };
}

export function readOnLeaks({
  onLeak = "warn",
  captureStacks,
}: LocksOptions): ConstructorParameters<typeof Leaks>[1] {
  if (onLeak !== "warn" && onLeak !== "release") {
    throw invalidOption('onLeak: must be "warn" or "release".');
  }
  const isDevelopment = process.env.NODE_ENV === "development";
  return {
    onLeak,
    captureStacks: captureStacks === undefined ? isDevelopment : flag("captureStacks", captureStacks),
  };
}

export function requireTraits(traits: Traits, require: NonNullable<LocksOptions["require"]>): void {
  isObject(require, "require", "must be an object, as in { require: { fencing: true, queueing: true } }");
  knownOptions(require, new Set(["fencing", "queueing"]), "require");
  for (const trait of ["fencing", "queueing"] as const) {
    if (require[trait] && !traits[trait]) {
      throw new LockError("unsupported", `${traits.engine} does not offer ${trait}, which is required here.`);
    }
  }
}

export function ownerOf(given: NonNullable<LocksOptions["owner"]>): Owner {
  isObject(
    given,
    "owner",
    'must be an object with service, instance and version, or some of them, as in { owner: { service: "orders" } }',
  );
  knownOptions(given, new Set(["service", "instance", "version"]), "owner");
  for (const [key, value] of Object.entries(given)) {
    if (value !== undefined && (typeof value !== "string" || value.length > 200)) {
      throw invalidOption(`owner.${key}: must be a string of at most 200 characters.`);
    }
  }
  const host = hostname();
  const { service, version, instance = `${host}-${process.pid}` } = given;
  return {
    ...(service === undefined ? undefined : { service }),
    instance,
    ...(version === undefined ? undefined : { version }),
    host,
    pid: process.pid,
  };
}
