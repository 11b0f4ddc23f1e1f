import type { ClaimRecord, ResourceRecord } from "../backend.js";
import { admit, type Owner, tokenOf, WHOLE } from "../claim.js";
import { writable } from "../decimal-json.js";
import { formatMs } from "../duration.js";
import { plainText, quotedText } from "../plain-text.js";
import type { ClaimView, ResourceView } from "../views.js";

export function viewOf({ name, capacity, claims }: ResourceRecord): ResourceView {
  const granted = admit(claims, capacity);
  const views = claims.map((claim) => claimView(claim, capacity));
  const sides = { holders: views.slice(0, granted), waiters: views.slice(granted) };
  return capacity === WHOLE ? { name, ...sides } : { name, permits: capacity, ...sides };
}

function claimView(claim: ClaimRecord, capacity: number): ClaimView {
  return writable({
    token: tokenOf(claim.ticket),
    mode: claim.weight === WHOLE ? "exclusive" : "shared",
    ...(capacity === WHOLE ? undefined : { permits: claim.weight }),
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
