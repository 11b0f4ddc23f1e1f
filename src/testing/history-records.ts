import type { Grant, Interval, Operation, Outcome } from "./history.js";

/**
 * What a worker writes down, one line each, into a file of its process. It writes synchronously, and before
 * it does what the line announces: a line that was written survives the kill of its writer, and a line that
 * was not written announces nothing that happened. So a kill at any moment makes a history shorter, never
 * wrong. (Over a channel that buffers, a kill could lose "released" but not the release itself.)
 */
export type HistoryRecord =
  | { kind: "invoked"; id: string; worker: string; name: string; limited: boolean; atNs: bigint }
  | ReturnedRecord
  /** `held` said yes at `atNs`, and would without any renewal say so until `promisedUntilNs`. */
  | { kind: "looked"; id: string; atNs: bigint; promisedUntilNs: bigint }
  /** `held` said yes at `atNs`, and the release follows. */
  | { kind: "released"; id: string; atNs: bigint }
  | LostRecord;

/** Told, or else found, at `atNs`; the last look that said yes was at `lookedAtNs`. */
interface LostRecord {
  kind: "lost";
  id: string;
  atNs: bigint;
  lookedAtNs?: bigint | undefined;
  loss?: string | undefined;
  heldAgain?: boolean;
}

interface ReturnedRecord {
  kind: "returned";
  id: string;
  atNs: bigint;
  outcome: Outcome["kind"];
  token?: bigint;
  message?: string;
  queued?: Interval | undefined;
  claimedAtNs?: bigint | undefined;
  stalled: boolean;
}

/** How a process ended: `atNs` is from before the signal was sent, or undefined if it ended by itself. */
export interface ProcessEnd {
  readonly atNs: bigint | undefined;
  /** By a fault of the plan. A process that had to be ended because it hung was not killed in this sense. */
  readonly killed: boolean;
}

export function writeRecord(record: HistoryRecord): string {
  const text = JSON.stringify(record, (_key, value: unknown) =>
    typeof value === "bigint" ? value.toString() : value,
  );
  return `${text}\n`;
}

export function readRecords(text: string): HistoryRecord[] {
  // What follows the last line break is a line that was not finished.
  const lines = text.split("\n").slice(0, -1);
  return lines.map((line) =>
    JSON.parse(line, (key, value: unknown) =>
      typeof value === "string" && (key.endsWith("Ns") || key === "token") ? BigInt(value) : value,
    ),
  );
}

type Written = { [K in HistoryRecord["kind"]]?: Extract<HistoryRecord, { kind: K }> };

/** The operations of one process. */
export function operationsOf(records: readonly HistoryRecord[], end: ProcessEnd): Operation[] {
  const byId = new Map<string, Written>();
  for (const record of records) {
    const written = byId.get(record.id) ?? {};
    byId.set(record.id, { ...written, [record.kind]: record });
  }
  return [...byId].flatMap(([id, written]) => {
    const { invoked, returned } = written;
    if (invoked === undefined) return [];
    const outcome = returned === undefined ? undefined : outcomeOf(returned, written, end);
    const open =
      outcome === undefined || (outcome.kind === "granted" && outcome.end.kind === "process-ended");
    return {
      id,
      worker: invoked.worker,
      name: invoked.name,
      invokedAtNs: invoked.atNs,
      limited: invoked.limited,
      queued: returned?.queued,
      claimedAtNs: returned?.claimedAtNs,
      outcome,
      killedAtNs: open && end.killed ? end.atNs : undefined,
      stalled: returned?.stalled,
    };
  });
}

function outcomeOf(returned: ReturnedRecord, written: Written, end: ProcessEnd): Outcome {
  const { outcome: kind, atNs, token, message = "" } = returned;
  if (kind === "error") return { kind, atNs, message };
  if (kind !== "granted") return { kind, atNs };
  if (token === undefined) throw new Error(`${returned.id} was granted without a token`);
  const untilNs = believedUntilNs(written, end);
  return {
    kind,
    atNs,
    token,
    believed: untilNs === undefined ? undefined : { fromNs: atNs, untilNs },
    promisedUntilNs: written.looked?.promisedUntilNs,
    end: endOf(written),
  };
}

function endOf({ released, lost }: Written): Grant["end"] {
  if (released !== undefined) return { kind: "released" };
  if (lost !== undefined) {
    return { kind: "lost", atNs: lost.atNs, loss: lost.loss, heldAgain: lost.heldAgain };
  }
  return { kind: "process-ended" };
}

/**
 * The last moment at which the holder is proven to have believed, if it ever did.
 *
 * `held` compares clocks: having said yes with some time remaining, it says yes until that time has passed,
 * whenever it is asked, also by a process that was stopped meanwhile and wakes up in that time. So the
 * promise of the last look is itself belief, and no look after it is needed. It ends earlier
 * - by a release: then at the look just before it;
 * - by a loss that was told although the promise still ran: then at the last look, because the process may
 *   have stood still between the loss and the telling;
 * - with the process: then at its death, for which we take the moment before the signal was sent, or the
 *   last look if that was still later.
 * Beyond the promise nothing is believed that counts: what a stopped process does before its first look is
 * contained by its token, and the look itself says no.
 */
function believedUntilNs({ looked, released, lost }: Written, end: ProcessEnd): bigint | undefined {
  if (looked === undefined) return undefined;
  const { atNs, promisedUntilNs } = looked;
  if (released !== undefined) return released.atNs;
  const provenNs = lost?.lookedAtNs ?? atNs;
  const overNs = lost?.atNs ?? end.atNs ?? provenNs;
  const inTime = overNs < promisedUntilNs;
  if (inTime && lost !== undefined) return provenNs;
  const untilNs = inTime ? overNs : promisedUntilNs;
  if (untilNs < provenNs) return provenNs;
  return untilNs;
}

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
