import { backendError, type LockError } from "../../core/errors.js";
import type {
  Header,
  KeyValue,
  LeaseResponse,
  RangeResponse,
  RequestOp,
  ResponseOp,
  TxnRequest,
  TxnResponse,
} from "./messages.js";

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

/** Of a lease that is there or not: then its time is 0 or less. */
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
