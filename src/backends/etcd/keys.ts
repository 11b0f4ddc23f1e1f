import type { ClaimRequest } from "../../core/backend.js";
import { WHOLE } from "../../core/claim.js";
import type { ListedClaim } from "../session-queue/claims.js";
import {
  type Compare,
  EQUAL,
  type KeyValue,
  LESS,
  type Long,
  ORDER,
  type RangeRequest,
  type RangeResponse,
  type RequestOp,
  SORT_BY_CREATION,
  TARGET,
} from "./messages.js";

// Keys, in the order of the parts:
//   <root><name>/<lease id, hex>-<weight>of<capacity>-<claim id>   a claim; `s` follows the capacity if it is sticky
//   <root><name>/<anything else>                                    a claim of another program: exclusive
//   <root>%session/<lease id, hex>                                  see session.ts
//   <root>%cell/<name>                                              a cell
//   <root>%forced/<connection id>/<claim id>                        why a claim was taken away
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
  // Of no text at all: everything.
  if (text === "") return { key: Buffer.from([0]), range_end: Buffer.from([0]) };
  const key = Buffer.from(text);
  const range_end = Buffer.from(text);
  // There is always a next byte: 0xff does not occur in UTF-8.
  range_end[key.length - 1] = (key.at(-1) ?? 0) + 1;
  return { key, range_end };
}

function hexOf(lease: Long): string {
  return BigInt.asUintN(64, BigInt(lease)).toString(16);
}

export function claimKey(
  root: string,
  claim: Pick<ClaimRequest, "name" | "id" | "weight" | "capacity" | "sticky">,
  lease: Long,
): Buffer {
  const { name, id, weight, capacity, sticky } = claim;
  const mark = sticky ? "s" : "";
  return Buffer.from(`${root}${encodeName(name)}/${hexOf(lease)}-${weight}of${capacity}${mark}-${id}`);
}

export function sessionKey(root: string, lease: Long): Buffer {
  return Buffer.from(`${root}%session/${hexOf(lease)}`);
}

export function cellKey(root: string, name: string): Buffer {
  return Buffer.from(`${root}%cell/${encodeName(name)}`);
}

export function forcedKeys(root: string, connectionId: string): KeyRange {
  return keysUnder(`${root}%forced/${connectionId}/`);
}

export function forcedKey(root: string, connectionId: string, id: string): Buffer {
  return Buffer.from(`${root}%forced/${connectionId}/${id}`);
}

/** A claim as its key tells it. */
export interface ListedKey extends ListedClaim {
  readonly name: string;
  readonly ticket: bigint;
  readonly kv: KeyValue;
}

export function readClaimKey(root: string, kv: KeyValue): ListedKey | undefined {
  const text = kv.key.toString();
  const slash = text.indexOf("/", root.length);
  const encoded = text.slice(root.length, slash);
  if (slash === -1 || encoded === "" || /^%(?!25|2F)/.test(encoded)) return undefined;
  const rest = text.slice(slash + 1);
  const [, weight, capacity, mark, id] = /^[0-9a-f]+-(\d+)of(\d+)(s?)-(.+)$/.exec(rest) ?? [];
  return {
    name: decodeName(encoded),
    id: id ?? rest,
    ticket: BigInt(kv.create_revision),
    weight: weight === undefined ? WHOLE : Number(weight),
    capacity: capacity === undefined ? undefined : Number(capacity),
    sticky: mark === "s",
    kv,
  };
}

/** The claims of one name, read in whole or as far as it matters, in the order of their tickets. */
export class QueueKeys {
  readonly #root: string;
  readonly range: KeyRange;

  constructor(root: string, name: string) {
    this.#root = root;
    this.range = keysUnder(`${root}${encodeName(name)}/`);
  }

  all(): RangeRequest {
    return { ...this.range, keys_only: true, sort_order: ORDER.ascending, sort_target: SORT_BY_CREATION };
  }

  first(): RangeRequest {
    return { ...this.all(), limit: 1 };
  }

  /** The first, and the one behind it. */
  firstTwo(): RangeRequest {
    return { ...this.all(), limit: 2 };
  }

  /** The newest and the one before it: all that an exclusive claim needs that was just made. */
  newestTwo(): RangeRequest {
    return { ...this.all(), sort_order: ORDER.descending, limit: 2 };
  }

  /** Those ahead of a claim; only the nearest of them if the claim is exclusive. */
  ahead(ticket: bigint, { exclusive }: { readonly exclusive: boolean }): RequestOp {
    const before = { ...this.all(), max_create_revision: String(ticket - 1n) };
    const nearest = { ...before, sort_order: ORDER.descending, limit: 1 };
    return { request_range: exclusive ? nearest : before };
  }

  read(answer: RangeResponse | undefined): readonly ListedKey[] {
    const claims = (answer?.kvs ?? []).flatMap((kv) => readClaimKey(this.#root, kv) ?? []);
    return claims.sort(byTicket);
  }
}

export function byTicket(a: ListedKey, b: ListedKey): number {
  return a.ticket < b.ticket ? -1 : 1;
}

/** There is no key in that range. */
export function isEmpty({ key, range_end }: KeyRange): Compare {
  return { key, range_end, target: TARGET.creation, result: EQUAL, create_revision: "0" };
}

/** No key was created there since that revision. */
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
