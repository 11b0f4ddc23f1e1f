/**
 * What several processes did with the locks of one engine, and whether that keeps every promise.
 *
 * All times are nanoseconds of `process.hrtime.bigint()`: the monotonic clock that the processes of one
 * machine share. Each is stamped on the side that can only hide a violation, never invent one: an
 * invocation before the call, an answer after it, a belief only from and to moments at which it is proven.
 */
export interface Interval {
  readonly fromNs: bigint;
  readonly untilNs: bigint;
}

export interface Grant {
  readonly kind: "granted";
  readonly atNs: bigint;
  readonly token: bigint;
  /** When its holder certainly believed in it; nothing if it was over before the holder first looked. */
  readonly believed?: Interval | undefined;
  /** Until when `held` would have said yes without any further renewal, as of the last look. */
  readonly promisedUntilNs?: bigint | undefined;
  readonly end:
    | { readonly kind: "released" }
    /** A loss that the holder was not told of has no name; and one that was none after all is worse still. */
    | {
        readonly kind: "lost";
        readonly atNs: bigint;
        readonly loss?: string | undefined;
        readonly heldAgain?: boolean | undefined;
      }
    | { readonly kind: "process-ended" };
}

export type Outcome =
  | Grant
  | { readonly kind: "refused" | "timeout" | "aborted"; readonly atNs: bigint }
  | { readonly kind: "error"; readonly atNs: bigint; readonly message: string };

/** One attempt of one worker to get one mutex. */
export interface Operation {
  readonly id: string;
  readonly worker: string;
  readonly name: string;
  readonly invokedAtNs: bigint;
  /** Whether it may end without a grant: it only tried, waited for a limited time, or could be aborted. */
  readonly limited: boolean;
  /**
   * The place that it last had in the queue: from the first answer that it waits, until the sending of the
   * last question that was still answered so. In between it was waiting, since no place ever comes back.
   */
  readonly queued?: Interval | undefined;
  readonly outcome?: Outcome | undefined;
  /**
   * When the claim by which it was granted was first sent. A task that shares the claim of another task of its process
   * may have asked after that.
   */
  readonly claimedAtNs?: bigint | undefined;
  /** Its process was killed in the middle of it, so nothing more is to be expected. */
  readonly killedAtNs?: bigint | undefined;
  /** Its process or its engine stood still for a good part of a ttl meanwhile: then an error is a fair answer. */
  readonly stalled?: boolean | undefined;
}

export type HistoryPromise =
  | "unique tokens"
  | "growing tokens"
  | "one holder at a time"
  | "holders in token order"
  | "a lease lasts as long as it says"
  | "loss is told"
  | "no waiter is lost in the queue"
  | "first come, first served";

/** A promise that a history contradicts. */
export interface Violation {
  readonly promise: HistoryPromise;
  readonly name: string;
  /** Those that contradict each other, in the order in which the message speaks of them. */
  readonly operations: readonly Operation[];
  /** For people; times are counted from the beginning of the history. */
  readonly message: string;
}

export type Granted = Operation & { readonly outcome: Grant };
type Found = Omit<Violation, "name">;
type At = (ns: bigint) => string;

/** An engine that is broken is so thousands of times: this many are told of each promise and name. */
const MOST_TOLD = 10;

/**
 * Finds what contradicts the promises; at most ten violations of each promise for each name, or `most`. The
 * history must be one in which no operator took a lock away and no server lost its memory: there, only the
 * tokens are promised.
 */
export function checkHistory(history: readonly Operation[], most = MOST_TOLD): readonly Violation[] {
  const at = timesOf(history);
  const violations: Violation[] = [];
  for (const [name, operations] of byName(history)) {
    const told = new Map<HistoryPromise, number>();
    for (const found of contradictions(operations, at)) {
      const count = (told.get(found.promise) ?? 0) + 1;
      told.set(found.promise, count);
      if (count <= most) violations.push({ ...found, name });
    }
  }
  return violations;
}

function* contradictions(operations: readonly Operation[], at: At): Generator<Found> {
  const grants = operations.filter(isGranted);
  yield* uniqueTokens(grants);
  yield* growingTokens(grants, at);
  yield* beliefs(grants, at);
  yield* losses(grants, at);
  yield* answers(operations, at);
  yield* order(operations, grants, at);
}

function byName(history: readonly Operation[]): ReadonlyMap<string, readonly Operation[]> {
  const names = new Map<string, Operation[]>();
  for (const operation of history) {
    const known = names.get(operation.name);
    if (known === undefined) names.set(operation.name, [operation]);
    else known.push(operation);
  }
  return names;
}

export function isGranted(operation: Operation): operation is Granted {
  return operation.outcome?.kind === "granted";
}

/** Writes moments as milliseconds since the beginning of a history. */
export function timesOf(history: readonly Operation[]): At {
  let startNs = history[0]?.invokedAtNs ?? 0n;
  for (const { invokedAtNs } of history) if (invokedAtNs < startNs) startNs = invokedAtNs;
  return (ns) => `+${(Number(ns - startNs) / 1e6).toFixed(3)} ms`;
}

function* uniqueTokens(grants: readonly Granted[]): Generator<Found> {
  const seen = new Map<bigint, Granted>();
  for (const grant of grants) {
    const { token } = grant.outcome;
    const first = seen.get(token);
    if (first === undefined) {
      seen.set(token, grant);
      continue;
    }
    const message = `${first.id} and ${grant.id} were both given the token ${token}.`;
    yield { promise: "unique tokens", operations: [first, grant], message };
  }
}

/** A claim that is sent when a grant is already known gets a greater token. */
function* growingTokens(grants: readonly Granted[], at: At): Generator<Found> {
  for (const [first, later] of tokensGoingBack(grants, ({ outcome }) => outcome.atNs)) {
    yield {
      promise: "growing tokens",
      operations: [first, later],
      message: `${first.id} had the token ${first.outcome.token} at ${at(first.outcome.atNs)}; ${later.id} asked after that, at ${at(later.invokedAtNs)}, and was given ${later.outcome.token}.`,
    };
  }
}

/**
 * Beliefs are disjoint, and follow one another in the order of their tokens: a mutex grants in ticket
 * order, and a holder that still believes is still the one at the head.
 */
function* beliefs(grants: readonly Granted[], at: At): Generator<Found> {
  const inTime = grants
    .flatMap((grant) => (grant.outcome.believed === undefined ? [] : { grant, ...grant.outcome.believed }))
    .sort((a, b) => compare(a.fromNs, b.fromNs));
  let [latest] = inTime;
  let greatest = latest;
  for (const next of inTime.slice(1)) {
    if (latest === undefined || greatest === undefined) return;
    const [a, b] = [latest.grant, next.grant];
    if (next.fromNs < latest.untilNs) {
      yield {
        promise: "one holder at a time",
        operations: [a, b],
        message: `${a.id} (token ${a.outcome.token}) believed from ${at(latest.fromNs)} until ${at(latest.untilNs)}, and ${b.id} (token ${b.outcome.token}) from ${at(next.fromNs)} until ${at(next.untilNs)}.`,
      };
    } else if (b.outcome.token < greatest.grant.outcome.token) {
      const first = greatest.grant;
      yield {
        promise: "holders in token order",
        operations: [first, b],
        message: `${first.id} held with the token ${first.outcome.token} from ${at(greatest.fromNs)}, and ${b.id} with the lower token ${b.outcome.token} only from ${at(next.fromNs)}.`,
      };
    }
    if (next.untilNs > latest.untilNs) latest = next;
    if (b.outcome.token > greatest.grant.outcome.token) greatest = next;
  }
}

function* losses(grants: readonly Granted[], at: At): Generator<Found> {
  for (const grant of grants) {
    const { token, end, promisedUntilNs } = grant.outcome;
    if (end.kind !== "lost") continue;
    const who = `${grant.id} (token ${token})`;
    if (end.loss === undefined) {
      const again = end.heldAgain ? "; later it was held again" : "";
      const message = `${who} was not held any more at ${at(end.atNs)}, and its signal never said so${again}.`;
      yield { promise: "loss is told", operations: [grant], message };
    }
    if (promisedUntilNs !== undefined && end.atNs < promisedUntilNs) {
      yield {
        promise: "a lease lasts as long as it says",
        operations: [grant],
        message: `${who} was lost at ${at(end.atNs)} (${end.loss ?? "untold"}), and had been promised until ${at(promisedUntilNs)}.`,
      };
    }
  }
}

/** Silence is no answer; without a limit, only the grant is one; and an error needs something that failed. */
function* answers(operations: readonly Operation[], at: At): Generator<Found> {
  for (const operation of operations) {
    const { id, outcome, limited, killedAtNs, stalled } = operation;
    let got: string;
    if (outcome === undefined) {
      if (killedAtNs !== undefined) continue;
      got = "was never answered";
    } else if (outcome.kind === "error") {
      if (stalled) continue;
      got = `got an error at ${at(outcome.atNs)} although nothing stood still: ${outcome.message}`;
    } else {
      if (limited || outcome.kind === "granted") continue;
      got = `got "${outcome.kind}" at ${at(outcome.atNs)} although its wait had no limit`;
    }
    yield {
      promise: "no waiter is lost in the queue",
      operations: [operation],
      message: `${id} asked at ${at(operation.invokedAtNs)} and ${got}.`,
    };
  }
}

/** A waiter that knew that it was queued before the claim of another one was even sent, is before that one. */
function* order(operations: readonly Operation[], grants: readonly Granted[], at: At): Generator<Found> {
  const promise = "first come, first served";
  for (const [first, later] of tokensGoingBack(grants, ({ queued }) => queued?.fromNs, claimedAtNs)) {
    // If the first one was already granted by then, that is a token going back, and said there.
    if (first.queued === undefined || first.outcome.atNs < later.invokedAtNs) continue;
    yield {
      promise,
      operations: [first, later],
      message: `${first.id} stood in the queue at ${at(first.queued.fromNs)}; the claim of ${later.id} was sent after that, at ${at(claimedAtNs(later))}, and got the lower token (${later.outcome.token}, not ${first.outcome.token}).`,
    };
  }
  const standing = operations.flatMap((operation) =>
    operation.queued === undefined ? [] : { operation, ...operation.queued },
  );
  let longest: (typeof standing)[number] | undefined;
  for (const [later, came] of sweep(grants, standing, ({ fromNs }) => fromNs, claimedAtNs)) {
    for (const place of came) if (longest === undefined || place.untilNs > longest.untilNs) longest = place;
    if (longest === undefined || later.outcome.atNs >= longest.untilNs) continue;
    yield {
      promise,
      operations: [longest.operation, later],
      message: `${longest.operation.id} stood in the queue from ${at(longest.fromNs)} until ${at(longest.untilNs)} at least; the claim of ${later.id} was sent at ${at(claimedAtNs(later))}, and ${later.id} was let in at ${at(later.outcome.atNs)}.`,
    };
  }
}

function claimedAtNs(operation: Operation): bigint {
  return operation.claimedAtNs ?? operation.invokedAtNs;
}

/** Pairs of which the first was known before the second asked, and yet has the greater token. */
function* tokensGoingBack(
  grants: readonly Granted[],
  knownAtNs: (grant: Granted) => bigint | undefined,
  askedAtNs = ({ invokedAtNs }: Granted) => invokedAtNs,
): Generator<readonly [Granted, Granted]> {
  const known = grants.flatMap((grant) => {
    const atNs = knownAtNs(grant);
    return atNs === undefined ? [] : { grant, atNs };
  });
  let greatest: Granted | undefined;
  for (const [later, before] of sweep(grants, known, ({ atNs }) => atNs, askedAtNs)) {
    for (const { grant } of before) {
      if (greatest === undefined || grant.outcome.token > greatest.outcome.token) greatest = grant;
    }
    if (greatest !== undefined && greatest.outcome.token > later.outcome.token) yield [greatest, later];
  }
}

/** Each grant in the order of asking, with what has come since the one before it, and before it asked. */
function* sweep<T>(
  grants: readonly Granted[],
  comings: readonly T[],
  atNs: (coming: T) => bigint,
  askedAtNs: (grant: Granted) => bigint,
): Generator<readonly [Granted, readonly T[]]> {
  const sorted = comings.toSorted((a, b) => compare(atNs(a), atNs(b)));
  let next = 0;
  for (const grant of grants.toSorted((a, b) => compare(askedAtNs(a), askedAtNs(b)))) {
    const from = next;
    for (let one = sorted[next]; one !== undefined && atNs(one) < askedAtNs(grant); one = sorted[next])
      next++;
    yield [grant, sorted.slice(from, next)];
  }
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
