import type { RenewRequest } from "../../core/backend.js";

/** A claim of the list that `renew` walks over. */
export interface ListedRenewal {
  readonly name: string;
  readonly id: string;
  readonly ticket: string;
  readonly ttl_us: number;
  /** The only one of its name; or the first of several, for which those of the name are looked at together. */
  readonly is_alone: 0 | 1;
  readonly is_first: 0 | 1;
}

export function us(ms: number): number {
  return Math.round(ms * 1000);
}

/** By name and ticket, which is the order in which every request locks claims: so there is no deadlock. */
export function inOrder<T extends { readonly request: RenewRequest }>(renewals: readonly T[]): T[] {
  return [...renewals].sort(({ request: a }, { request: b }) => {
    if (a.name !== b.name) return a.name < b.name ? -1 : 1;
    return a.ticket < b.ticket ? -1 : a.ticket > b.ticket ? 1 : 0;
  });
}

/** Of claims in order. */
export function listOf(claims: readonly RenewRequest[]): readonly ListedRenewal[] {
  return claims.map(({ name, id, ticket, ttlMs }, index) => {
    const follows = claims[index - 1]?.name === name;
    const alone = !follows && claims[index + 1]?.name !== name;
    return {
      name,
      id,
      ticket: String(ticket),
      ttl_us: us(ttlMs),
      is_alone: alone ? 1 : 0,
      is_first: follows || alone ? 0 : 1,
    };
  });
}
