import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { Messages } from "#lib/backends/postgres/pg.js";
import { compiled, run } from "../../core/program.js";

// A server that lets us in, and then sends what pg cannot read. In a process of its own: it would end, or hang.

function message(type: string, body: readonly number[] | string, length?: number): Buffer {
  const bytes = Buffer.from(body as string);
  const head = Buffer.alloc(5);
  head.write(type, "latin1");
  head.writeInt32BE(length ?? bytes.length + 4, 1);
  return Buffer.concat([head, bytes]);
}

const LET_IN = Buffer.concat([message("R", [0, 0, 0, 0]), message("Z", "I")]);

const HOSTILE: Readonly<Record<string, Buffer>> = {
  "a row with more fields than it has": message("D", [0x7f, 0xff]),
  "a description of fields that are not there": message("T", [0x7f, 0xff]),
  "a message that is shorter than its own length": message("D", "xxxxxxxxxx", 3),
  "a message of a negative length": message("D", "xxxxxxxxxx", -1),
  "a message of 2 GB": message("D", "xxxxxxxxxx", 0x7fffffff),
  "an error without an end": message("E", "Mno end"),
  "an error of nothing": message("E", ""),
  "a notice without an end": message("N", [1, 2, 3]),
  "a notification that is cut off": message("A", [0]),
  "an unknown way to log in": message("R", [0, 0, 0, 77]),
  "a key that is cut off": message("K", [0]),
  "something else": Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n"),
};

const WHEN = ["before it lets us in", "at once", "in place of an answer"] as const;

async function serve(bytes: Buffer, when: (typeof WHEN)[number]): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    socket.once("data", () => {
      if (when === "before it lets us in") socket.write(bytes);
      socket.write(LET_IN);
      if (when === "at once") socket.write(bytes);
      if (when === "in place of an answer") socket.on("data", () => socket.write(bytes));
    });
  });
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}

describe.each(Object.entries(HOSTILE))("a server that sends %s", (_, bytes) => {
  test("it is an error, and the process goes on", async () => {
    const ports = await Promise.all(WHEN.map((when) => serve(bytes, when)));
    const { code, signal, out, err } = await run(`
      import { postgres } from ${JSON.stringify(compiled("backends/postgres/index.js"))};
      for (const port of ${JSON.stringify(ports)}) {
        const locks = createLocks(postgres({ url: "postgres://u:p@127.0.0.1:" + port + "/db", timeout: "300ms" }));
        await locks.mutex("a").tryAcquire().then(() => console.log("granted"), (error) => console.log(error.code));
        await locks.close({ drain: 0, abort: 0 });
      }
      console.log("went on");`);
    expect({ code, signal, err }).toEqual({ code: 0, signal: null, err: "" });
    expect(out).toMatch(/^(backend\n){3}went on\n$/);
  });
});

describe("what the server sends", () => {
  const sound = fc.oneof(
    fc.tuple(fc.constantFrom("D", "T", "Z", "C", "A", "n"), fc.uint8Array({ maxLength: 20 })),
    fc.constantFrom<[string, Uint8Array]>(
      ["E", Buffer.from("SERROR\0C42P01\0Mmissing\0\0")],
      ["N", Buffer.from("SNOTICE\0\0")],
    ),
  );
  const messages = fc.array(
    sound.map(([type, body]) => message(type, [...body])),
    { minLength: 1 },
  );

  test("is sound, however it is cut into pieces", () => {
    fc.assert(
      fc.property(messages, fc.array(fc.nat({ max: 7 }), { minLength: 1 }), (all, cuts) => {
        const bytes = Buffer.concat(all);
        const following = new Messages();
        for (let at = 0, turn = 0; at < bytes.length; turn++) {
          const end = at + (cuts[turn % cuts.length] ?? 0) + 1;
          expect(following.areSound(bytes.subarray(at, end))).toBe(true);
          at = end;
        }
      }),
    );
  });

  test("is not, from the first message on that is none", () => {
    const bad = fc.constantFrom(
      message("D", "x", 3),
      message("D", "x", -5),
      message("D", "x", 2 ** 24 + 1),
      message("E", ""),
      message("E", "M\0"),
      message("N", "Mno end"),
    );
    fc.assert(
      fc.property(messages, bad, (before, wrong) => {
        expect(new Messages().areSound(Buffer.concat([...before, wrong]))).toBe(false);
      }),
    );
  });
});
