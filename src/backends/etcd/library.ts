import type { PeerCertificate } from "node:tls";
import { LockError } from "../../core/errors.js";
import { absent, exportsOf, type LowestVersions, refuseOlder } from "../../engine-kit/client-library.js";
import { DESCRIPTION, type LeaseResponse, type Long } from "./messages.js";

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

export interface CallOptions {
  readonly deadline?: number;
}

/** The states of a connection that are told apart here. */
export const CONNECTIVITY = { idle: 0, connecting: 1, ready: 2 } as const;

export interface Channel {
  getConnectivityState(tryToConnect: boolean): number;
  watchConnectivityState(from: number, deadline: number, callback: (error?: Error) => void): void;
}

export interface Client {
  getChannel(): Channel;
  makeUnaryRequest(
    path: string,
    serialize: Method["requestSerialize"],
    deserialize: Method["responseDeserialize"],
    request: object,
    metadata: Metadata,
    options: CallOptions,
    callback: (error: unknown, answer: object) => void,
  ): unknown;
  makeBidiStreamRequest(
    path: string,
    serialize: Method["requestSerialize"],
    deserialize: Method["responseDeserialize"],
    metadata: Metadata,
    options: CallOptions,
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

export type Service = "KV" | "Lease" | "Watch" | "Auth";

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
  const service = (name: Service) =>
    described[`etcdserverpb.${name}`] as unknown as Readonly<Record<string, Method>>;
  const services = {
    KV: service("KV"),
    Lease: service("Lease"),
    Watch: service("Watch"),
    Auth: service("Auth"),
  };
  return { grpc: exportsOf(grpc, "Client") as Grpc, services };
}

export function methodOf({ services }: Library, service: Service, name: string): Method {
  const method = services[service][name];
  if (method === undefined) throw new Error(`etcd has no ${service}.${name}`);
  return method;
}
