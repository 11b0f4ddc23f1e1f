import type { MethodDefinition } from "@grpc/grpc-js";
import { LockError } from "../../core/errors.js";
import { DESCRIPTION } from "./messages.js";

export type Grpc = typeof import("@grpc/grpc-js");
export type Service = "KV" | "Lease" | "Watch" | "Auth";
export type Method = MethodDefinition<object, object>;

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

async function load(): Promise<Library> {
  const [grpc, { fromJSON }] = await Promise.all([
    import("@grpc/grpc-js"),
    import("@grpc/proto-loader"),
  ]).catch(() => {
    throw new LockError(
      "unsupported",
      "an etcd:// URL needs two libraries. Install them: npm install @grpc/grpc-js @grpc/proto-loader",
    );
  });
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
  return { grpc, services };
}

export function methodOf({ services }: Library, service: Service, name: string): Method {
  const method = services[service][name];
  if (method === undefined) throw new Error(`etcd has no ${service}.${name}`);
  return method;
}
