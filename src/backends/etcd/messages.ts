// The few messages of etcd's v3 API that are used here, described for protobuf: field names and numbers as
// in etcd's rpc.proto, kv.proto and auth.proto. 64-bit numbers come as decimal strings.

const field = (type: string, id: number) => ({ type, id });
const many = (type: string, id: number) => ({ rule: "repeated", type, id });

const messages = {
  Header: { fields: { revision: field("int64", 3), raft_term: field("uint64", 4) } },
  KeyValue: {
    fields: {
      key: field("bytes", 1),
      create_revision: field("int64", 2),
      mod_revision: field("int64", 3),
      value: field("bytes", 5),
      lease: field("int64", 6),
    },
  },
  RangeRequest: {
    fields: {
      key: field("bytes", 1),
      range_end: field("bytes", 2),
      limit: field("int64", 3),
      sort_order: field("int32", 5),
      sort_target: field("int32", 6),
      keys_only: field("bool", 8),
      max_create_revision: field("int64", 13),
    },
  },
  RangeResponse: {
    fields: {
      header: field("Header", 1),
      kvs: many("KeyValue", 2),
      more: field("bool", 3),
      count: field("int64", 4),
    },
  },
  PutRequest: {
    fields: {
      key: field("bytes", 1),
      value: field("bytes", 2),
      lease: field("int64", 3),
      ignore_lease: field("bool", 6),
    },
  },
  PutResponse: { fields: { header: field("Header", 1) } },
  DeleteRangeRequest: { fields: { key: field("bytes", 1), range_end: field("bytes", 2) } },
  DeleteRangeResponse: { fields: { header: field("Header", 1), deleted: field("int64", 2) } },
  RequestOp: {
    oneofs: { request: { oneof: ["request_range", "request_put", "request_delete_range"] } },
    fields: {
      request_range: field("RangeRequest", 1),
      request_put: field("PutRequest", 2),
      request_delete_range: field("DeleteRangeRequest", 3),
    },
  },
  ResponseOp: {
    oneofs: { response: { oneof: ["response_range", "response_put", "response_delete_range"] } },
    fields: {
      response_range: field("RangeResponse", 1),
      response_put: field("PutResponse", 2),
      response_delete_range: field("DeleteRangeResponse", 3),
    },
  },
  Compare: {
    oneofs: { target_union: { oneof: ["create_revision", "mod_revision", "value"] } },
    fields: {
      result: field("int32", 1),
      target: field("int32", 2),
      key: field("bytes", 3),
      create_revision: field("int64", 5),
      mod_revision: field("int64", 6),
      value: field("bytes", 7),
      range_end: field("bytes", 64),
    },
  },
  TxnRequest: {
    fields: { compare: many("Compare", 1), success: many("RequestOp", 2), failure: many("RequestOp", 3) },
  },
  TxnResponse: {
    fields: { header: field("Header", 1), succeeded: field("bool", 2), responses: many("ResponseOp", 3) },
  },
  LeaseGrantRequest: { fields: { TTL: field("int64", 1), ID: field("int64", 2) } },
  LeaseGrantResponse: {
    fields: { header: field("Header", 1), ID: field("int64", 2), TTL: field("int64", 3) },
  },
  LeaseRevokeRequest: { fields: { ID: field("int64", 1) } },
  LeaseRevokeResponse: { fields: { header: field("Header", 1) } },
  LeaseKeepAliveRequest: { fields: { ID: field("int64", 1) } },
  LeaseKeepAliveResponse: {
    fields: { header: field("Header", 1), ID: field("int64", 2), TTL: field("int64", 3) },
  },
  LeaseTimeToLiveRequest: { fields: { ID: field("int64", 1), keys: field("bool", 2) } },
  LeaseTimeToLiveResponse: {
    fields: {
      header: field("Header", 1),
      ID: field("int64", 2),
      TTL: field("int64", 3),
      grantedTTL: field("int64", 4),
      keys: many("bytes", 5),
    },
  },
  WatchCreateRequest: {
    fields: {
      key: field("bytes", 1),
      range_end: field("bytes", 2),
      start_revision: field("int64", 3),
      filters: many("int32", 5),
      watch_id: field("int64", 7),
    },
  },
  WatchCancelRequest: { fields: { watch_id: field("int64", 1) } },
  WatchRequest: {
    oneofs: { request_union: { oneof: ["create_request", "cancel_request"] } },
    fields: {
      create_request: field("WatchCreateRequest", 1),
      cancel_request: field("WatchCancelRequest", 2),
    },
  },
  Event: { fields: { type: field("int32", 1), kv: field("KeyValue", 2) } },
  WatchResponse: {
    fields: {
      header: field("Header", 1),
      watch_id: field("int64", 2),
      created: field("bool", 3),
      canceled: field("bool", 4),
      compact_revision: field("int64", 5),
      cancel_reason: field("string", 6),
      events: many("Event", 11),
    },
  },
  AuthenticateRequest: { fields: { name: field("string", 1), password: field("string", 2) } },
  AuthenticateResponse: { fields: { header: field("Header", 1), token: field("string", 2) } },
};

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
export const DESCRIPTION = { nested: { etcdserverpb: { nested: { ...messages, ...services } } } };

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
