import type { PeerCertificate } from "node:tls";
import { LockError } from "../../core/errors.js";
import { absent, exportsOf, type LowestVersions, refuseOlder } from "../../engine-kit/client-library.js";
import type { LeaseResponse, Long } from "./messages.js";

// The few messages of etcd's v3 API that are used here, described for protobuf: field names and numbers as
// in etcd's rpc.proto, kv.proto and auth.proto.

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

const SERVICES = {
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
const DESCRIPTION = { nested: { etcdserverpb: { nested: { ...messages(), ...SERVICES } } } };

// The part of gRPC's library that is used here. Its own types would be missing where it is not installed.

export interface Metadata {
  set(key: string, value: string): void;
}

export interface KeepAliveStream {
  write(request: { readonly ID: Long }): unknown;
  end(): unknown;
  on(event: "error", listener: (error: unknown) => void): unknown;
  once(event: "data", listener: (answer: LeaseResponse) => void): unknown;
  once(event: "end", listener: () => void): unknown;
}

/** The states of a connection that are told apart here. */
export const CONNECTIVITY = { idle: 0, connecting: 1, ready: 2 } as const;

export interface Client {
  getChannel(): {
    getConnectivityState(tryToConnect: boolean): number;
    watchConnectivityState(from: number, deadline: number, callback: (error?: Error) => void): void;
  };
  makeUnaryRequest(
    path: string,
    serialize: Method["requestSerialize"],
    deserialize: Method["responseDeserialize"],
    request: object,
    metadata: Metadata,
    options: { readonly deadline: number },
    callback: (error: unknown, answer: object) => void,
  ): unknown;
  makeBidiStreamRequest(
    path: string,
    serialize: Method["requestSerialize"],
    deserialize: Method["responseDeserialize"],
    metadata: Metadata,
    options: { readonly deadline: number },
  ): unknown;
  close(): void;
}

export interface Grpc {
  readonly Client: new (address: string, credentials: object, options: object) => Client;
  readonly Metadata: new () => Metadata;
  readonly credentials: {
    createInsecure(): object;
    createSsl(
      ca: Buffer | null,
      key: Buffer | null,
      cert: Buffer | null,
      verify: {
        readonly checkServerIdentity?: (host: string, certificate: PeerCertificate) => Error | undefined;
        readonly rejectUnauthorized?: boolean;
      },
    ): object;
  };
}

export interface Method {
  readonly path: string;
  readonly requestSerialize: (request: object) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => object;
}

export type Service = keyof typeof SERVICES;

export interface Library {
  readonly grpc: Grpc;
  readonly services: Readonly<Record<Service, Readonly<Record<string, Method>>>>;
}

let library: Promise<Library> | undefined;

/** Once per process: reading the description takes some milliseconds. */
export function loadLibrary(): Promise<Library> {
  library ??= load().catch((error: unknown) => {
    library = undefined;
    throw error;
  });
  return library;
}

export const LOWEST_VERSIONS: LowestVersions<"@grpc/grpc-js" | "@grpc/proto-loader"> = {
  "@grpc/grpc-js": "1.11.0",
  "@grpc/proto-loader": "0.7.0",
};

async function grpcLibrary() {
  try {
    return await import("@grpc/grpc-js");
  } catch (error) {
    return absent("@grpc/grpc-js", error);
  }
}

async function protoLibrary() {
  try {
    return await import("@grpc/proto-loader");
  } catch (error) {
    return absent("@grpc/proto-loader", error);
  }
}

async function load(): Promise<Library> {
  const [grpc, proto] = await Promise.all([grpcLibrary(), protoLibrary()]);
  if (grpc === undefined || proto === undefined) {
    throw new LockError(
      "unsupported",
      "an etcd:// URL needs two libraries. Install them: npm install @grpc/grpc-js @grpc/proto-loader",
    );
  }
  await refuseOlder("@grpc/grpc-js", LOWEST_VERSIONS);
  await refuseOlder("@grpc/proto-loader", LOWEST_VERSIONS);
  const { fromJSON } = exportsOf(proto, "fromJSON") as typeof proto;
  const described = fromJSON(DESCRIPTION as Parameters<typeof fromJSON>[0], {
    keepCase: true,
    longs: String,
    defaults: true,
    arrays: true,
  });
  const services = Object.keys(SERVICES).map((name) => [name, described[`etcdserverpb.${name}`]] as const);
  return {
    grpc: exportsOf(grpc, "Client") as Grpc,
    services: Object.fromEntries(services) as unknown as Library["services"],
  };
}

export function methodOf({ services }: Library, service: Service, name: string): Method {
  const method = services[service][name];
  if (method === undefined) throw new Error(`etcd has no ${service}.${name}`);
  return method;
}
