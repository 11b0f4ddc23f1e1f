import { WHOLE } from "../../core/claim.js";
import type { Compare, KeyValue, Long } from "./messages.js";
import { EQUAL, LESS, TARGET } from "./messages.js";

// Keys, in the order of the parts:
//   <root><name>/<lease id, hex>-<weight>of<capacity>-<claim id>   a claim
//   <root><name>/<anything else>                                    a claim of a stranger: exclusive
//   <root>%session/<lease id, hex>                                  see session.ts
//   <root>%cell/<name>                                              a cell
//   <root>%forced/<bell>/<claim id>                                 why a claim was taken away
// In names % and / are escaped, so no name begins with a % that is not an escape, and none contains another.

export interface KeyRange {
  readonly key: Buffer;
  readonly range_end: Buffer;
}

export function encodeName(name: string): string {
  return name.replace(/[%/]/g, (char) => (char === "%" ? "%25" : "%2F"));
}

export function decodeName(encoded: string): string {
  return encoded.replace(/%(25|2F)/g, (_, hex: string) => (hex === "25" ? "%" : "/"));
}

/** All keys that begin with this text. */
export function keysUnder(text: string): KeyRange {
  const key = Buffer.from(text);
  const end = Buffer.from(text);
  for (let at = end.length - 1; at >= 0; at--) {
    const byte = end[at] ?? 0;
    if (byte === 0xff) continue;
    end[at] = byte + 1;
    return { key, range_end: end.subarray(0, at + 1) };
  }
  // Of no text at all: everything.
  return { key: Buffer.from([0]), range_end: Buffer.from([0]) };
}

export function claimsOf(root: string, name: string): KeyRange {
  return keysUnder(`${root}${encodeName(name)}/`);
}

export function hexOf(lease: Long): string {
  return BigInt.asUintN(64, BigInt(lease)).toString(16);
}

export function claimKey(
  root: string,
  claim: { readonly name: string; readonly id: string; readonly weight: number; readonly capacity: number },
  lease: Long,
): Buffer {
  const { name, id, weight, capacity } = claim;
  return Buffer.from(`${root}${encodeName(name)}/${hexOf(lease)}-${weight}of${capacity}-${id}`);
}

export function sessionKey(root: string, lease: Long): Buffer {
  return Buffer.from(`${root}%session/${hexOf(lease)}`);
}

export function cellKey(root: string, name: string): Buffer {
  return Buffer.from(`${root}%cell/${encodeName(name)}`);
}

export function forcedKeys(root: string, bell: string): KeyRange {
  return keysUnder(`${root}%forced/${bell}/`);
}

export function forcedKey(root: string, bell: string, id: string): Buffer {
  return Buffer.from(`${root}%forced/${bell}/${id}`);
}

/** What a claim's key says. */
export interface ListedClaim {
  readonly name: string;
  readonly id: string;
  readonly ticket: bigint;
  readonly weight: number;
  /** `undefined`: a stranger's, which fits beside nobody. */
  readonly capacity: number | undefined;
  readonly kv: KeyValue;
}

export function readClaimKey(root: string, kv: KeyValue): ListedClaim | undefined {
  const text = kv.key.toString();
  const slash = text.indexOf("/", root.length);
  const encoded = text.slice(root.length, slash);
  if (slash === -1 || encoded === "" || /^%(?!25|2F)/.test(encoded)) return undefined;
  const rest = text.slice(slash + 1);
  const [, weight, capacity, id] = /^[0-9a-f]+-(\d+)of(\d+)-(.+)$/.exec(rest) ?? [];
  return {
    name: decodeName(encoded),
    id: id ?? rest,
    ticket: BigInt(kv.create_revision),
    weight: weight === undefined ? WHOLE : Number(weight),
    capacity: capacity === undefined ? undefined : Number(capacity),
    kv,
  };
}

/** There is no key in that range. */
export function isEmpty({ key, range_end }: KeyRange): Compare {
  return { key, range_end, target: TARGET.creation, result: EQUAL, create_revision: "0" };
}

/** Nobody has come since that revision. */
export function emptySince({ key, range_end }: KeyRange, revision: Long): Compare {
  const create_revision = String(BigInt(revision) + 1n);
  return { key, range_end, target: TARGET.creation, result: LESS, create_revision };
}

/** Nothing has been done to it since that revision. */
export function isAsOf(key: Buffer, mod_revision: Long): Compare {
  return { key, target: TARGET.change, result: EQUAL, mod_revision };
}

/** It is still the key that was created then. */
export function isStill(key: Buffer, ticket: bigint): Compare {
  return { key, target: TARGET.creation, result: EQUAL, create_revision: String(ticket) };
}
