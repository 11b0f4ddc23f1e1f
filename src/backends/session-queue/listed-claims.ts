import type { ClaimRecord, ResourceRecord } from "../../core/backend.js";
import { admit } from "../../core/claim.js";
import type { StoredMetadata } from "../../engine-kit/claim-metadata.js";

/** A claim as the servers list it. */
export interface ListedClaim {
  readonly id: string;
  readonly weight: number;
  /** `undefined`: another program has made it, and it is exclusive, whatever the capacity. */
  readonly capacity: number | undefined;
}

/** How many of these claims, in ticket order, are granted. */
export function grantedOf(claims: readonly ListedClaim[], capacity: number): number {
  const [first] = claims;
  return first !== undefined && first.capacity === undefined ? 1 : admit(claims, capacity);
}

/** The capacity that is in force; `undefined` if there are only claims of other programs. */
export function capacityOf(claims: readonly ListedClaim[]): number | undefined {
  return claims.find(({ capacity }) => capacity !== undefined)?.capacity;
}

/** One claim as `inspect` and `list` show it. */
export function claimRecord(
  claim: Omit<ClaimRecord, "owner" | "note" | "resize">,
  { owner, note, resize }: StoredMetadata,
): ClaimRecord {
  return { ...claim, owner, note, resize };
}

/** `listed` may be more than is shown; `undefined` if nothing is. */
export function resourceRecord(
  name: string,
  listed: readonly ListedClaim[],
  claims: readonly ClaimRecord[],
): ResourceRecord | undefined {
  const [first] = claims;
  return first && { name, capacity: capacityOf(listed) ?? first.weight, claims };
}
