import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { ZooKeeper } from "./server.js";

/** One reply of the server, without the length in front: 16 bytes of header, then the body. */
export interface Reply {
  readonly op: number;
  readonly bytes: Buffer;
}

export interface AlteredReplies {
  readonly url: string;
  /** How many requests the client has sent. */
  requests: number;
  /** What the client gets in place of a reply; the reply itself if nothing is to be changed. */
  alter: (reply: Reply) => Buffer;
  close(): void;
}

const HEADER = 16;

/** Ways to spoil the body of a reply. */
export const SPOIL = {
  cut: (reply: Buffer) => reply.subarray(0, HEADER + Math.floor((reply.length - HEADER) / 2)),
  empty: (reply: Buffer) => reply.subarray(0, HEADER),
  /** Its first field says that it is longer than everything that follows. */
  tooLong: (reply: Buffer) => withInt(reply, 0x7fffffff, HEADER),
  negative: (reply: Buffer) => withInt(reply, -2, HEADER),
};

export function hasBody({ bytes }: Reply): boolean {
  return bytes.length > HEADER;
}

/** The header alone, with the number of an error. */
export function refusing(reply: Buffer, code: number): Buffer {
  return withInt(reply.subarray(0, HEADER), code, 12);
}

function withInt(reply: Buffer, value: number, at: number): Buffer {
  const changed = Buffer.from(reply);
  changed.writeInt32BE(value, at);
  return changed;
}

/** A server that answers wrongly: a real one, with its replies changed on the way. */
export async function alteredReplies(server: ZooKeeper): Promise<AlteredReplies> {
  const [node] = server.nodes;
  if (node === undefined) throw new Error("there is no server");
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const behind = connect({ host: node.host, port: node.port });
    const ops = new Map<number, number>();
    // The first message in each direction is the greeting, which has no number.
    let greeted = false;
    const toServer = framed((frame) => {
      if (greeted) ops.set(frame.readInt32BE(0), frame.readInt32BE(4));
      if (greeted) altered.requests++;
      greeted = true;
      send(behind, frame);
    });
    let welcomed = false;
    const toClient = framed((frame) => {
      const op = welcomed ? ops.get(frame.readInt32BE(0)) : undefined;
      welcomed = true;
      send(client, op === undefined ? frame : altered.alter({ op, bytes: frame }));
    });
    client.on("data", toServer).on("close", () => behind.destroy());
    behind.on("data", toClient).on("close", () => client.destroy());
    for (const socket of [client, behind]) sockets.add(socket.on("error", () => undefined));
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  const altered: AlteredReplies = {
    url: `zookeeper://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    requests: 0,
    alter: ({ bytes }) => bytes,
    close() {
      proxy.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  return altered;
}

function send(socket: Socket, frame: Buffer): void {
  const length = Buffer.alloc(4);
  length.writeInt32BE(frame.length);
  socket.write(Buffer.concat([length, frame]));
}

/** Calls back with each whole message, without the length in front of it. */
function framed(onFrame: (frame: Buffer) => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readInt32BE(0)) {
      const end = 4 + rest.readInt32BE(0);
      onFrame(rest.subarray(4, end));
      rest = rest.subarray(end);
    }
  };
}
