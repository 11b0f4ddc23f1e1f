import { backendError, type LockError } from "../../core/errors.js";

// The few messages of etcd's v3 API that are used here, described for protobuf: field names and numbers as
// in etcd's rpc.proto, kv.proto and auth.proto. 64-bit numbers come as decimal strings.

const MESSAGES = `
  message Header { int64 revision = 3; uint64 raft_term = 4; }
  message KeyValue {
    bytes key = 1; int64 create_revision = 2; int64 mod_revision = 3; bytes value = 5; int64 lease = 6;
  }
  message RangeRequest {
    bytes key = 1; bytes range_end = 2; int64 limit = 3; int32 sort_order = 5; int32 sort_target = 6;
    bool keys_only = 8; int64 max_create_revision = 13;
  }
  message RangeResponse { Header header = 1; repeated KeyValue kvs = 2; bool more = 3; int64 count = 4; }
  message PutRequest { bytes key = 1; bytes value = 2; int64 lease = 3; bool ignore_lease = 6; }
  message PutResponse { Header header = 1; }
  message DeleteRangeRequest { bytes key = 1; bytes range_end = 2; }
  message DeleteRangeResponse { Header header = 1; int64 deleted = 2; }
  message RequestOp {
    RangeRequest request_range = 1; PutRequest request_put = 2; DeleteRangeRequest request_delete_range = 3;
  }
  message ResponseOp {
    RangeResponse response_range = 1; PutResponse response_put = 2;
    DeleteRangeResponse response_delete_range = 3;
  }
  message Compare {
    int32 result = 1; int32 target = 2; bytes key = 3; int64 create_revision = 5; int64 mod_revision = 6;
    bytes value = 7; bytes range_end = 64;
  }
  message TxnRequest {
    repeated Compare compare = 1; repeated RequestOp success = 2; repeated RequestOp failure = 3;
  }
  message TxnResponse { Header header = 1; bool succeeded = 2; repeated ResponseOp responses = 3; }
  message LeaseGrantRequest { int64 TTL = 1; int64 ID = 2; }
  message LeaseGrantResponse { Header header = 1; int64 ID = 2; int64 TTL = 3; }
  message LeaseRevokeRequest { int64 ID = 1; }
  message LeaseRevokeResponse { Header header = 1; }
  message LeaseKeepAliveRequest { int64 ID = 1; }
  message LeaseKeepAliveResponse { Header header = 1; int64 ID = 2; int64 TTL = 3; }
  message LeaseTimeToLiveRequest { int64 ID = 1; bool keys = 2; }
  message LeaseTimeToLiveResponse {
    Header header = 1; int64 ID = 2; int64 TTL = 3; int64 grantedTTL = 4; repeated bytes keys = 5;
  }
  message WatchCreateRequest {
    bytes key = 1; bytes range_end = 2; int64 start_revision = 3; repeated int32 filters = 5;
    int64 watch_id = 7;
  }
  message WatchCancelRequest { int64 watch_id = 1; }
  message WatchRequest { WatchCreateRequest create_request = 1; WatchCancelRequest cancel_request = 2; }
  message Event { int32 type = 1; KeyValue kv = 2; }
  message WatchResponse {
    Header header = 1; int64 watch_id = 2; bool created = 3; bool canceled = 4; int64 compact_revision = 5;
    string cancel_reason = 6; repeated Event events = 11;
  }
  message AuthenticateRequest { string name = 1; string password = 2; }
  message AuthenticateResponse { Header header = 1; string token = 2; }
`;

/** Of these at most one is sent; those that are not are left out of an answer. */
const ONE_OF: Readonly<Record<string, readonly string[]>> = {
  RequestOp: ["request_range", "request_put", "request_delete_range"],
  ResponseOp: ["response_range", "response_put", "response_delete_range"],
  Compare: ["create_revision", "mod_revision", "value"],
  WatchRequest: ["create_request", "cancel_request"],
};

function messages(): object {
  const found = [...MESSAGES.matchAll(/message (\w+) \{([^}]*)\}/g)].map(([, name = "", text = ""]) => {
    const fields = [...text.matchAll(/(repeated )?(\w+) (\w+) = (\d+);/g)].map(
      ([, many, type, field, id]) =>
        [field, { type, id: Number(id), ...(many && { rule: "repeated" }) }] as const,
    );
    const oneof = ONE_OF[name];
    const oneofs = oneof && { oneofs: { one: { oneof } } };
    return [name, { ...oneofs, fields: Object.fromEntries(fields) }] as const;
  });
  return Object.fromEntries(found);
}

const call = (name: string) => ({ requestType: `${name}Request`, responseType: `${name}Response` });
const stream = (name: string) => ({ ...call(name), requestStream: true, responseStream: true });

const services = {
  KV: { methods: { Range: call("Range"), Txn: call("Txn") } },
  Lease: {
    methods: {
      LeaseGrant: call("LeaseGrant"),
      LeaseRevoke: call("LeaseRevoke"),
      LeaseKeepAlive: stream("LeaseKeepAlive"),
      LeaseTimeToLive: call("LeaseTimeToLive"),
    },
  },
  Watch: { methods: { Watch: stream("Watch") } },
  Auth: { methods: { Authenticate: call("Authenticate") } },
};

/** As protobuf.js reads it. */
export const DESCRIPTION = { nested: { etcdserverpb: { nested: { ...messages(), ...services } } } };

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
  /** With its lease, or with the one that it has. */
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
