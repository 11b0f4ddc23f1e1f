import {
  checkHistory,
  type Granted,
  type HistoryPromise,
  isGranted,
  type Operation,
  type Violation,
} from "#lib/testing/history.js";

/** What some processes saw of some failovers. */
export interface FailoverCounts {
  readonly failovers: number;
  readonly processes: number;
  readonly grants: number;
  /** Grants that were made while another holder of the same name still believed that it held. */
  readonly overlaps: number;
  readonly longestOverlapMs: number;
  /** Grants whose fencing token is not greater than that of a grant before it. */
  readonly tokenRegressions: number;
  /** Leases that ended before their release, and those among them that the server no longer knew. */
  readonly lost: number;
  readonly taken: number;
  /** Lost leases whose signal did not fire when their time was over. */
  readonly notTold: number;
  /** Processes that were not granted a lock within this time after a failover; summed over the failovers. */
  readonly notBack: number;
  readonly backWithinMs: number;
  /** The longest time that a process needed for its first grant after a failover. */
  readonly slowestBackMs: number;
  /** Requests that got neither a lock nor an error. */
  readonly unanswered: number;
  /** How often each error reached a caller. */
  readonly errors: Readonly<Record<string, number>>;
}

export interface Failovers {
  /** When the new primary could be reached, for each failover. */
  readonly switchedAtNs: readonly bigint[];
  readonly processes: number;
  readonly backWithinMs: number;
}

/** The violations of a history, by what they are counted as. */
export interface Found {
  readonly overlaps: readonly Violation[];
  readonly tokenRegressions: readonly Violation[];
  readonly notTold: readonly Violation[];
}

const COUNTED_AS = {
  overlaps: ["one holder at a time"],
  tokenRegressions: ["unique tokens", "growing tokens", "holders in token order"],
  notTold: ["loss is told"],
} as const satisfies Record<keyof Found, readonly HistoryPromise[]>;

export function findViolations(history: readonly Operation[]): Found {
  const all = checkHistory(history, Number.POSITIVE_INFINITY);
  const of = (promises: readonly HistoryPromise[]) => {
    const found = all.filter(({ promise }) => promises.includes(promise));
    // One grant may contradict several others, and is counted once.
    return [...new Map(found.map((one) => [one.operations.at(-1)?.id, one])).values()];
  };
  return {
    overlaps: of(COUNTED_AS.overlaps),
    tokenRegressions: of(COUNTED_AS.tokenRegressions),
    notTold: of(COUNTED_AS.notTold),
  };
}

export function countHistory(
  history: readonly Operation[],
  found: Found,
  failovers: Failovers,
): FailoverCounts {
  const { switchedAtNs, processes, backWithinMs } = failovers;
  const grants = history.filter(isGranted);
  const lost = grants.flatMap(({ outcome: { end } }) => (end.kind === "lost" ? end : []));
  const times = switchedAtNs.flatMap((atNs) => timesToReturn(grants, atNs, processes));
  const back = times.filter((ms) => ms <= backWithinMs);
  return {
    failovers: switchedAtNs.length,
    processes,
    grants: grants.length,
    overlaps: found.overlaps.length,
    longestOverlapMs: Math.max(0, ...found.overlaps.map(lengthMs)),
    tokenRegressions: found.tokenRegressions.length,
    lost: lost.length,
    taken: lost.filter(({ loss }) => loss === "taken").length,
    notTold: found.notTold.length,
    notBack: times.length - back.length,
    backWithinMs,
    slowestBackMs: Math.max(0, ...back),
    unanswered: history.filter(({ outcome, killedAtNs }) => !outcome && killedAtNs === undefined).length,
    errors: errorsOf(history),
  };
}

/** For each process, how long after that moment it was granted a lock; infinite if it never was. */
export function timesToReturn(grants: readonly Granted[], atNs: bigint, processes: number): number[] {
  const firstNs = new Map<number, bigint>();
  for (const { worker, outcome } of grants) {
    const process = Number.parseInt(worker, 10);
    const known = firstNs.get(process);
    if (outcome.atNs >= atNs && (known === undefined || outcome.atNs < known))
      firstNs.set(process, outcome.atNs);
  }
  return Array.from({ length: processes }, (_, process) => {
    const first = firstNs.get(process);
    return first === undefined ? Number.POSITIVE_INFINITY : toMs(first - atNs);
  });
}

function lengthMs({ operations }: Violation): number {
  const [first, later] = operations.filter(isGranted).map(({ outcome }) => outcome.believed);
  if (first === undefined || later === undefined) return 0;
  const untilNs = first.untilNs < later.untilNs ? first.untilNs : later.untilNs;
  return toMs(untilNs - later.fromNs);
}

function errorsOf(history: readonly Operation[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of history) {
    if (outcome?.kind !== "error") continue;
    // Without what differs from one to the next: ports, times, names.
    const message = outcome.message.replaceAll(/"[^"]*"|\d[\d.:]*( m?s\b)?/g, "…");
    counts[message] = (counts[message] ?? 0) + 1;
  }
  return counts;
}

function toMs(ns: bigint): number {
  return Math.round(Number(ns) / 1e5) / 10;
}
