import { Client, credentials, Server, ServerCredentials } from "@grpc/grpc-js";
import { loadLibrary, type Method, type Service } from "#lib/backends/etcd/library.js";

/** One answer of the server, as the engine will read it. */
// biome-ignore lint/suspicious/noExplicitAny: a test changes it to what no type allows
export type Reply = any;

export interface AlteredReplies {
  readonly url: string;
  /** Changes the answer to a method, such as `Txn`. */
  alter: (method: string, reply: Reply) => Reply;
  close(): void;
}

interface Call {
  readonly request: object;
  on(event: string, listener: (part: object) => void): Call;
  write(part: object): void;
  end(): void;
}

type Described = Method & { readonly requestStream: boolean };

/** A server that answers wrongly: a real one, with its answers changed on the way. */
export async function alteredReplies(address: string): Promise<AlteredReplies> {
  const { services } = await loadLibrary();
  const behind = new Client(address, credentials.createInsecure());
  const front = new Server();
  for (const name of Object.keys(services) as Service[]) {
    const methods = services[name] as Readonly<Record<string, Described>>;
    const handlers = Object.entries(methods).map(([method, described]) => [
      method,
      described.requestStream ? streamed(method, described) : asked(method, described),
    ]);
    front.addService(services[name] as never, Object.fromEntries(handlers) as never);
  }

  function asked(name: string, { path, requestSerialize, responseDeserialize }: Described) {
    return ({ request }: Call, done: (error: Error | null, reply?: object) => void) =>
      behind.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, (error, reply) =>
        done(error, reply && altered.alter(name, reply)),
      );
  }

  function streamed(name: string, { path, requestSerialize, responseDeserialize }: Described) {
    return (call: Call) => {
      const stream = behind.makeBidiStreamRequest(path, requestSerialize, responseDeserialize);
      call.on("data", (part) => void stream.write(part)).on("end", () => stream.end());
      call.on("cancelled", () => stream.cancel());
      stream.on("data", (part: object) => call.write(altered.alter(name, part)));
      stream.on("end", () => call.end()).on("error", () => call.end());
    };
  }

  const port = await new Promise<number>((resolve, reject) => {
    const bound = (error: Error | null, found: number) => (error === null ? resolve(found) : reject(error));
    front.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), bound);
  });
  const altered: AlteredReplies = {
    url: `etcd://127.0.0.1:${port}`,
    alter: (_, reply) => reply,
    close() {
      front.forceShutdown();
      behind.close();
    },
  };
  return altered;
}
