import { randomBytes } from "node:crypto";
import { lua } from "./lua.generated.js";

/** The keys of one lock. They share a hash tag, so that they live on one slot of a cluster. */
export interface LockKeys {
  readonly head: string;
  /** Head, claims, queue: all that an ordinary claim or release touches. */
  readonly usual: readonly string[];
  /** The usual ones, and what an operator took away. */
  readonly all: readonly string[];
}

/** Braces delimit the hash tag, so a name that contains some must not be able to end it. */
export function encodeName(name: string): string {
  if (!/[%{}]/.test(name)) return name;
  return name.replace(/[%{}]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

export function decodeName(encoded: string): string {
  return encoded.replace(/%(25|7B|7D)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}

const MOST_KEPT = 1_000;

/** The keys of locks by name. A program uses few names again and again: what they become is kept. */
export class LockKeyring {
  readonly #prefix: string;
  readonly #kept = new Map<string, LockKeys>();

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  of(name: string): LockKeys {
    let keys = this.#kept.get(name);
    if (keys === undefined) {
      if (this.#kept.size >= MOST_KEPT) this.#kept.clear();
      keys = makeKeys(this.#prefix, name);
      this.#kept.set(name, keys);
    }
    return keys;
  }
}

function makeKeys(prefix: string, name: string): LockKeys {
  const head = `${prefix}:{${encodeName(name)}}`;
  const usual = [head, `${head}:claims`, `${head}:queue`];
  return { head, usual, all: [...usual, `${head}:forced`] };
}

/** In the slot of the lock of that name. */
export function cellKey(prefix: string, name: string): string {
  return `${prefix}:{${encodeName(name)}}:cell`;
}

/** A pattern for SCAN that finds the locks whose names begin so. */
export function lockPattern(keyPrefix: string, prefix: string, namePrefix: string): string {
  return `${escapeGlob(`${keyPrefix}${prefix}:{${encodeName(namePrefix)}`)}*}`;
}

export function nameOfKey(prefix: string, key: string): string | undefined {
  const start = `${prefix}:{`;
  const end = "}";
  if (!key.startsWith(start) || !key.endsWith(end)) return undefined;
  return decodeName(key.slice(start.length, -end.length));
}

/** A new channel, on which one process is rung: scripts know whom they let in, and ring nobody else. */
export function bellChannel(prefix: string): string {
  return `${prefix}:bell:${randomBytes(9).toString("base64url")}`;
}

function escapeGlob(text: string): string {
  return text.replace(/[\\*?[\]]/g, "\\$&");
}

export const LUA = {
  claim: lua.draw + lua["claim-idle"] + lua.common + lua.claim,
  renew: lua.common + lua.renew,
  release: lua["release-only"] + lua.common + lua.release,
  list: lua.common + lua.list,
  cell: lua.draw + lua.cell,
};
