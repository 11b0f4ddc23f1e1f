import type { ClaimRequest } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";

let last = 0;

/** An exclusive claim that waits if it must. */
export function claimRequest(name: string, more: Partial<ClaimRequest> = {}): ClaimRequest {
  return {
    name,
    id: `claim-${process.pid}-${++last}`,
    weight: WHOLE,
    capacity: WHOLE,
    ttlMs: 30_000,
    fixed: false,
    minHoldMs: 0,
    queue: true,
    owner: { instance: "test", host: "here", pid: 1 },
    note: "",
    ...more,
  };
}
