import { type Operation, timesOf, type Violation } from "./history.js";

interface Happening {
  readonly atNs: bigint;
  readonly operation: Operation;
  readonly what: string;
}

const MOST_OTHERS = 24;

/**
 * A violation with its neighbourhood as a time line: everything about those that contradict each other
 * (marked), and what else happened to the same lock nearest to that.
 */
export function describeHistory(history: readonly Operation[], violation: Violation): string {
  const at = timesOf(history);
  const involved = new Set(violation.operations);
  const marked = violation.operations.flatMap(happenings);
  const others = history
    .filter((operation) => operation.name === violation.name && !involved.has(operation))
    .flatMap(happenings)
    .map((happening) => ({ happening, gapNs: gapTo(marked, happening.atNs) }))
    .sort((a, b) => inOrder(a.gapNs, b.gapNs))
    .slice(0, MOST_OTHERS)
    .map(({ happening }) => happening);
  const shown = [...marked, ...others].sort((a, b) => inOrder(a.atNs, b.atNs));
  const timeWidth = Math.max(...shown.map(({ atNs }) => at(atNs).length));
  const idWidth = Math.max(...shown.map(({ operation }) => operation.id.length));
  const lines = shown.map(({ atNs, operation, what }) => {
    const mark = involved.has(operation) ? ">" : " ";
    return `${mark} ${at(atNs).padStart(timeWidth)}  ${operation.id.padEnd(idWidth)}  ${what}`;
  });
  return [`"${violation.name}": ${violation.promise}. ${violation.message}`, ...lines].join("\n");
}

function happenings(operation: Operation): Happening[] {
  const { invokedAtNs, limited, queued, outcome, killedAtNs } = operation;
  const found: Happening[] = [];
  const add = (atNs: bigint, what: string) => found.push({ atNs, operation, what });
  add(invokedAtNs, limited ? "asks" : "asks, without a limit");
  if (queued !== undefined) {
    add(queued.fromNs, "knows that it is queued");
    if (queued.untilNs > queued.fromNs) add(queued.untilNs, "is still queued");
  }
  if (outcome?.kind === "granted") {
    const { atNs, token, believed, promisedUntilNs, end } = outcome;
    add(atNs, `granted, token ${token}${believed === undefined ? ", and already over" : ""}`);
    if (believed !== undefined) add(believed.untilNs, `believes until here (${end.kind})`);
    if (end.kind === "lost") {
      add(end.atNs, `lost: ${end.loss ?? "untold"}`);
      if (promisedUntilNs !== undefined && promisedUntilNs > end.atNs)
        add(promisedUntilNs, "was promised until here");
    }
  } else if (outcome !== undefined) {
    add(outcome.atNs, outcome.kind === "error" ? `error: ${outcome.message}` : outcome.kind);
  }
  if (killedAtNs !== undefined) add(killedAtNs, "its process is killed");
  return found;
}

function gapTo(marked: readonly Happening[], atNs: bigint): bigint {
  let nearest: bigint | undefined;
  for (const other of marked) {
    const gap = atNs > other.atNs ? atNs - other.atNs : other.atNs - atNs;
    if (nearest === undefined || gap < nearest) nearest = gap;
  }
  return nearest ?? 0n;
}

function inOrder(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
