import { backendError, type LockError } from "../../core/errors.js";

// The messages of etcd's v3 API as the library gives and takes them, and what is checked of answers. 64-bit numbers come
// as decimal strings.

export const ORDER = { ascending: 1, descending: 2 } as const;
export const SORT_BY_CREATION = 2;
export const EQUAL = 0;
export const LESS = 2;
export const TARGET = { creation: 1, change: 2, value: 3 } as const;
/** A filter of watches: tell of deletions only. */
export const NO_PUTS = 0;
export const EVENT_DELETE = 1;
/** As many as etcd allows in one transaction by default. */
export const MOST_QUESTIONS = 128;

/** A 64-bit number. */
export type Long = string;

export interface Header {
  readonly revision: Long;
  readonly raft_term: Long;
}

export interface KeyValue {
  readonly key: Buffer;
  readonly create_revision: Long;
  readonly mod_revision: Long;
  readonly value: Buffer;
  readonly lease: Long;
}

export interface RangeRequest {
  readonly key: string | Buffer;
  readonly range_end?: string | Buffer;
  readonly limit?: number;
  readonly sort_order?: number;
  readonly sort_target?: number;
  readonly keys_only?: boolean;
  readonly max_create_revision?: Long;
}

export interface RangeResponse {
  readonly header: Header;
  readonly kvs: readonly KeyValue[];
  readonly more: boolean;
  /** How many keys are in the range, whatever the limit. */
  readonly count: Long;
}

export interface RequestOp {
  readonly request_range?: RangeRequest;
  /** Bound to this lease, or to the one that the key has already. */
  readonly request_put?: { readonly key: Buffer; readonly value: Buffer } & (
    | { readonly lease: Long }
    | { readonly ignore_lease: true }
  );
  readonly request_delete_range?: { readonly key: Buffer };
}

export interface Compare {
  readonly result: number;
  readonly target: number;
  readonly key: Buffer;
  readonly range_end?: Buffer;
  readonly create_revision?: Long;
  readonly mod_revision?: Long;
  readonly value?: Buffer;
}

export interface TxnRequest {
  readonly compare?: readonly Compare[];
  readonly success: readonly RequestOp[];
  readonly failure?: readonly RequestOp[];
}

export interface ResponseOp {
  readonly response_range?: RangeResponse;
  readonly response_put?: object;
  readonly response_delete_range?: { readonly deleted: Long };
}

export interface TxnResponse {
  readonly header: Header;
  readonly succeeded: boolean;
  readonly responses: readonly ResponseOp[];
}

export interface LeaseResponse {
  readonly header: Header;
  readonly ID: Long;
  /** Seconds; 0 or less if there is no such lease. */
  readonly TTL: Long;
}

export interface LeaseRest extends LeaseResponse {
  readonly grantedTTL: Long;
  /** What is kept by it, if that was asked for. */
  readonly keys: readonly Buffer[];
}

export interface WatchRequest {
  readonly create_request?: {
    readonly key: Buffer;
    readonly range_end?: Buffer;
    readonly start_revision: Long;
    readonly filters: readonly number[];
    readonly watch_id: Long;
  };
  readonly cancel_request?: { readonly watch_id: Long };
}

export interface WatchResponse {
  readonly header: Header;
  readonly watch_id: Long;
  readonly created: boolean;
  readonly canceled: boolean;
  readonly compact_revision: Long;
  readonly cancel_reason: string;
  readonly events: readonly { readonly type: number; readonly kv: KeyValue | null }[];
}

// The library checks the types of what a message has; a part that is missing reads as 0, as an empty list, or as
// nothing at all. Each answer is checked here, where it comes in, so that what is missing never looks like a free lock.

/** From 1 on: revisions, terms of office, ids of leases, seconds. */
const COUNTED = /^[1-9]\d*$/;

export function checkRange<T extends RangeResponse>(answer: T): T {
  if (!isHeader(answer.header) || !answer.kvs.every(isKeyValue)) throw notEtcd();
  return answer;
}

/** It answers each part of the branch that was taken, in its order. */
export function checkTxn(answer: TxnResponse, { success, failure = [] }: TxnRequest): TxnResponse {
  const asked = answer.succeeded ? success : failure;
  const { header, responses } = answer;
  if (!isHeader(header) || responses.length !== asked.length) throw notEtcd();
  if (!asked.every((part, index) => answers(responses[index], part))) throw notEtcd();
  return answer;
}

export function checkGrant(answer: LeaseResponse): LeaseResponse {
  if (!isHeader(answer.header) || !COUNTED.test(answer.TTL) || !/[1-9]/.test(answer.ID)) throw notEtcd();
  return answer;
}

/** The lease may be gone: then its time is 0 or less. */
export function checkLease<T extends LeaseResponse>(answer: T, id: string): T {
  if (!isHeader(answer.header) || answer.ID !== id) throw notEtcd();
  return answer;
}

function answers(response: ResponseOp | undefined, part: RequestOp): boolean {
  if (part.request_range !== undefined) return response?.response_range?.kvs.every(isKeyValue) === true;
  if (part.request_delete_range !== undefined) return response?.response_delete_range != null;
  return response?.response_put != null;
}

/** The servers leave it out only where nothing was asked for. */
function isHeader(header: Header | null): boolean {
  return header !== null && COUNTED.test(header.revision) && COUNTED.test(header.raft_term);
}

function isKeyValue({ create_revision, mod_revision }: KeyValue): boolean {
  return COUNTED.test(create_revision) && COUNTED.test(mod_revision);
}

export function notEtcd(): LockError {
  return backendError("the answer is none of etcd's. Is this an etcd server?", { retryable: false });
}
