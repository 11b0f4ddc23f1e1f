import type { ClaimRecord, ResourceRecord } from "./backend.js";
import type { CircleStep } from "./circle.js";
import { admit, type Owner, tokenOf } from "./claim.js";
import { writable } from "./decimal-json.js";
import { formatMs } from "./duration.js";
import { plainText, quotedText } from "./plain-text.js";

/** A claim as people may see it: everything but its id. */
export interface ClaimView {
  readonly token: bigint;
  readonly weight: number;
  readonly note: string;
  readonly owner: Owner;
  /** Holders: since the grant. Waiters: since they came. */
  readonly ageMs: number;
  readonly remainingMs: number;
}

export interface ResourceView {
  readonly name: string;
  readonly capacity: number;
  readonly holders: readonly ClaimView[];
  readonly waiters: readonly ClaimView[];
  /** If those who wait and those who hold wait for each other: who holds what and waits for what. */
  readonly circle?: readonly CircleStep[];
}

export function viewOf(record: ResourceRecord): ResourceView {
  const granted = admit(record.claims, record.capacity);
  const views = record.claims.map(claimView);
  return {
    name: record.name,
    capacity: record.capacity,
    holders: views.slice(0, granted),
    waiters: views.slice(granted),
  };
}

function claimView(claim: ClaimRecord): ClaimView {
  return writable({
    token: tokenOf(claim.ticket),
    weight: claim.weight,
    note: claim.note,
    owner: claim.owner,
    ageMs: Math.max(0, Math.round(claim.ageMs)),
    remainingMs: Math.max(0, Math.round(claim.remainingMs)),
  });
}

/** `billing on web-3, process 4711` */
export function describeOwner({ service, host, pid }: Owner): string {
  return plainText(`${service === undefined ? host : `${service} on ${host}`}, process ${pid}`);
}

/** `billing on web-3, process 4711, for 12.4 s (token 17…, note "nightly run", 8 s left unless renewed)` */
export function describeHolder(claim: ClaimView): string {
  const note = claim.note === "" ? "" : `, note ${quotedText(claim.note)}`;
  return `${describeOwner(claim.owner)}, for ${formatMs(claim.ageMs)} (token ${claim.token}${note}, ${formatMs(claim.remainingMs)} left unless renewed)`;
}
