import type { ClaimRequest } from "../../core/backend.js";
import { WHOLE } from "../../core/claim.js";
import type { ListedClaim } from "../session-queue/claims.js";

// Nodes, below the root that the options give:
//   <name>/_c_<claim id>-<weight>of<capacity>-lock-<sequence>   a claim, ephemeral, below a container; `s` follows the
//                                                              capacity if it is sticky
//   <name>/<anything else with a sequence>                      a claim of another program, exclusive, if ephemeral
//   %session-<id>, %bell-<id>                                    see session.ts
//   %cells/<number>/<name>                                       a cell
// In names a % is always escaped, so none of them begins with %session, %bell or %cells.

/** What no node may contain: control characters, surrogates and private use, and the last of the plane. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\ud800-\uf8ff\ufff0-\uffff]/;
const ESCAPED = /[%/\ue000-\uf8ff\ufff0-\uffff]|[\u{10000}-\u{10ffff}]/gu;

export function isNodeName(text: string): boolean {
  return !FORBIDDEN.test(text) && text !== "." && text !== "..";
}

/** One node per name and one name per node. */
export function encodeName(name: string): string {
  // Two that mean something else to every tree, and one that does at its root.
  if (name === "." || name === "..") return name.replaceAll(".", "%2E");
  if (name === "zookeeper") return "%7Aookeeper";
  return name.replace(ESCAPED, (char) =>
    [...Buffer.from(char)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`).join(""),
  );
}

/** `undefined`: no name of ours, but perhaps a node of another program. */
export function decodeName(node: string): string | undefined {
  try {
    const name = decodeURIComponent(node);
    return encodeName(name) === node ? name : undefined;
  } catch {
    return undefined;
  }
}

/** What a claim's node is called, without its sequence. */
export function claimNode({
  id,
  weight,
  capacity,
  sticky,
}: Pick<ClaimRequest, "id" | "weight" | "capacity" | "sticky">): string {
  return `_c_${id}-${weight}of${capacity}${sticky ? "s" : ""}-lock-`;
}

/** A claim as the name of its node tells it. */
export interface ListedNode extends ListedClaim {
  readonly node: string;
  readonly sequence: number;
}

const LAST_NUMBER = 2 ** 31 - 1;
const OURS = /^_c_(.+)-(\d+)of(\d+)(s?)-lock-(-?\d{9,10})$/;
/** Ten digits; a minus counts as one of them, except before the longest. One that follows `lock-` is a minus. */
const OF_OTHERS = /(?:lock-|(?<=-))(-\d{9,10})$|(?:^|\D)(\d{10})$/;

/** In the order of their numbers, which is that of their creation until the numbers are used up. */
export function readClaims(nodes: readonly string[]): ListedNode[] {
  const claims = nodes.flatMap((node) => readClaim(node) ?? []);
  return claims.sort((a, b) => a.sequence - b.sequence);
}

/**
 * The numbers have 32 bits. After the last one a server gives that again and again, and while several claims are made
 * at once, those from the other end.
 */
export function numbersAreUsedUp(claims: readonly ListedNode[]): boolean {
  return claims.some(({ sequence }) => sequence < 0 || sequence === LAST_NUMBER);
}

function readClaim(node: string): ListedNode | undefined {
  const [, id, weight, capacity, mark, sequence] = OURS.exec(node) ?? [];
  if (id !== undefined) {
    const numbers = { sequence: Number(sequence), weight: Number(weight), capacity: Number(capacity) };
    return { node, id, ...numbers, sticky: mark === "s" };
  }
  const [, negative, theirs = negative] = OF_OTHERS.exec(node) ?? [];
  if (theirs === undefined) return undefined;
  return { node, id: node, sequence: Number(theirs), weight: WHOLE, capacity: undefined, sticky: false };
}
