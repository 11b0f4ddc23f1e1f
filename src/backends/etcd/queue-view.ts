import { admit } from "../../core/claim.js";
import { claimsOf, type KeyRange, type ListedClaim, readClaimKey } from "./keys.js";
import {
  ORDER,
  type RangeRequest,
  type RangeResponse,
  type RequestOp,
  SORT_BY_CREATION,
} from "./messages.js";

/** What a claim weighs, and of how much. */
export interface Shape {
  readonly weight: number;
  readonly capacity: number;
}

/** The claims of one name, read in whole or as far as it matters, in the order of their tickets. */
export class QueueView {
  readonly #root: string;
  readonly range: KeyRange;

  constructor(root: string, name: string) {
    this.#root = root;
    this.range = claimsOf(root, name);
  }

  all(): RangeRequest {
    return { ...this.range, keys_only: true, sort_order: ORDER.ascending, sort_target: SORT_BY_CREATION };
  }

  first(): RangeRequest {
    return { ...this.all(), limit: 1 };
  }

  /** The newest and the one before it: all that somebody who has just come needs if it fits beside nobody. */
  newestTwo(): RangeRequest {
    return { ...this.all(), sort_order: ORDER.descending, limit: 2 };
  }

  /** Those ahead of a claim; only the nearest of them if the claim fits beside nobody anyway. */
  ahead(ticket: bigint, { weight, capacity }: Shape): RequestOp {
    const before = { ...this.all(), max_create_revision: String(ticket - 1n) };
    const nearest = { ...before, sort_order: ORDER.descending, limit: 1 };
    return { request_range: weight === capacity ? nearest : before };
  }

  read(answer: RangeResponse | undefined): readonly ListedClaim[] {
    const claims = (answer?.kvs ?? []).flatMap((kv) => readClaimKey(this.#root, kv) ?? []);
    return claims.sort((a, b) => (a.ticket < b.ticket ? -1 : 1));
  }
}

/** How many of these claims are granted. A stranger's fits beside nobody, whatever the capacity. */
export function grantedOf(claims: readonly ListedClaim[], capacity: number): number {
  const [first] = claims;
  return first !== undefined && first.capacity === undefined ? 1 : admit(claims, capacity);
}

/** The capacity that is in force, if anybody but strangers is there. */
export function capacityOf(claims: readonly ListedClaim[]): number | undefined {
  return claims.find(({ capacity }) => capacity !== undefined)?.capacity;
}
