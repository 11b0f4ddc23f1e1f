import { lockKey } from "../../clients/redis/client.js";

/** The keys of one lock on every node: its head, and what an operator took away. */
export type LockKeys = readonly [head: string, forced: string];

/** What a quorum keeps is apart from what `redis://` keeps on the same server under the same prefix. */
export function quorumPrefix(prefix: string): string {
  return `${prefix}:quorum`;
}

export function lockKeys(prefix: string, name: string): LockKeys {
  const head = lockKey(quorumPrefix(prefix), name);
  return [head, `${head}:forced`];
}

/** Since when a node remembers everything. */
export function bornKey(prefix: string): string {
  return `${quorumPrefix(prefix)}:born`;
}

/** The channel for notifications of all locks with this prefix; each message says which lock or claim is meant. */
export function quorumChannel(prefix: string): string {
  return `${quorumPrefix(prefix)}:bell`;
}

/** A lock in a message on the channel. No id of a claim has a colon in it. */
export function channelId(name: string): string {
  return `lock:${encodeURIComponent(name)}`;
}
