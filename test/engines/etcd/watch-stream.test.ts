import { createServer, type ServerHttp2Stream } from "node:http2";
import { type AddressInfo, connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { WatchStream } from "#lib/backends/etcd/watcher.js";

const METHOD = {
  path: "/watch",
  requestSerialize: () => Buffer.from("request"),
  responseDeserialize: (bytes: Buffer) => {
    if (bytes.includes("bad")) throw new Error("not a message");
    return { text: bytes.toString() };
  },
};

/** A message as gRPC frames it. */
function framed(text: string): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(Buffer.byteLength(text), 1);
  return Buffer.concat([head, Buffer.from(text)]);
}

/** A stream to a server that answers so, what was heard on it, and its end. */
async function watching(answer: (stream: ServerHttp2Stream) => void) {
  const server = createServer();
  server.on("session", (session) => session.on("error", () => {}));
  server.on("stream", (stream) => {
    stream.on("error", () => {});
    answer(stream);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const open = () => connect(port, "127.0.0.1");
  const target = { origin: `http://127.0.0.1:${port}`, open, timeoutMs: 5_000, headers: {} };
  const stream = new WatchStream(target, METHOD as never);
  onTestFinished(() => stream.cancel());
  const heard: string[] = [];
  const broke = new Promise<void>((resolve) =>
    stream.listen({
      heard: (message) => heard.push((message as { text?: string }).text ?? ""),
      broke: resolve,
    }),
  );
  stream.write({} as never);
  return { heard, broke };
}

const OK = { ":status": 200 };

test("messages are read however their bytes arrive", async () => {
  const texts = ["one", "", "x".repeat(100_000), "last"];
  const bytes = Buffer.concat(texts.map(framed));
  const { heard, broke } = await watching((stream) => {
    stream.respond(OK);
    for (const at of [0, 3, 7, 11, 60_000]) stream.write(bytes.subarray(at, nextOf(at)));
    function nextOf(at: number): number {
      return [3, 7, 11, 60_000, bytes.length].find((end) => end > at) ?? bytes.length;
    }
    stream.end();
  });
  await broke;
  expect(heard).toEqual(texts);
});

/** Answers first, and then does that. */
const answered = (then: (stream: ServerHttp2Stream) => void, status = 200) => {
  return (stream: ServerHttp2Stream) => {
    stream.respond({ ":status": status });
    then(stream);
  };
};

test.each<[string, (stream: ServerHttp2Stream) => void]>([
  ["is going away", answered(({ session }) => session?.goaway(0))],
  ["sends something else", answered((stream) => void stream.write(framed("bad")))],
  ["answers with another status", answered((stream) => void stream.end(), 404)],
  ["ends the stream", (stream) => void stream.close(8)],
  ["ends the session", ({ session }) => session?.destroy()],
])("it ends when the server %s", async (_, answer) => {
  const { broke } = await watching(answer);
  await broke;
});
