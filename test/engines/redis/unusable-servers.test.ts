import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Ended, run } from "../../core/program.js";
import { askRedis, type RedisSingle, startRedisSingle } from "./server.js";
import { LIBRARIES, type Library } from "./tools.js";

const SECRET = "s3cr3t-p4ss";
/** "Promptly": two requests of the default timeout, on a busy machine. */
const PROMPTLY_MS = 8_000;

let open: RedisSingle;
let guarded: RedisSingle;
/** What else may listen on a port. */
const strangers = {
  http: createHttpServer((_, response) => response.end("hello")) as Server,
  echo: createServer((socket) => socket.on("error", () => {}).pipe(socket)),
  hangUp: createServer((socket) => socket.on("error", () => {}).destroy()),
  silent: createServer((socket) => socket.on("error", () => {}).resume()),
};

beforeAll(async () => {
  [open, guarded] = await Promise.all([startRedisSingle(), startRedisSingle()]);
  await askRedis(
    guarded.node.port,
    "ACL",
    "SETUSER",
    "limited",
    "on",
    `>${SECRET}`,
    "~*",
    "+hello",
    "+client",
    "+info",
  );
  await askRedis(guarded.node.port, "CONFIG", "SET", "requirepass", "another one");
  await Promise.all(
    Object.values(strangers).map(
      (server) => new Promise<void>((done) => server.listen(0, "127.0.0.1", done)),
    ),
  );
});
afterAll(async () => {
  for (const server of Object.values(strangers)) server.close();
  await Promise.all([open.stop(), guarded.stop()]);
});

const stranger = (name: keyof typeof strangers) => (strangers[name].address() as AddressInfo).port;

interface Outcome {
  readonly code: string;
  readonly retryable: boolean;
  readonly message: string;
  /** Everything that a log could show of it. */
  readonly shown: string;
  readonly tookMs: number;
}

/** A program that connects to all of them, says what it was told, closes, and has nothing left to do. */
async function tell(library: Library, urls: Readonly<Record<string, string>>) {
  const ended = await run(`
    import { inspect } from "node:util";
    const ask = async (url) => {
      const startedAt = performance.now();
      // As connect() does, but with either library.
      const backend = redis({ url, library: ${JSON.stringify(library)} });
      try {
        for await (const _ of backend.list({ name: "x" }));
        return { code: "let in" };
      } catch (error) {
        const { code, retryable, message, stack } = error;
        const shown = [message, stack, inspect(error, { depth: 9, showHidden: true }), JSON.stringify(error)].join("\\n");
        return { code, retryable, message, shown, tookMs: performance.now() - startedAt };
      } finally {
        await backend.close();
      }
    };
    const urls = ${JSON.stringify(urls)};
    const told = await Promise.all(Object.entries(urls).map(async ([name, url]) => [name, await ask(url)]));
    console.log(JSON.stringify(Object.fromEntries(told)));
  `);
  // Older versions of node-redis print errors of sentinels beside it.
  const line = ended.out.split("\n").find((printed) => printed.startsWith("{"));
  const outcomes = JSON.parse(line ?? "{}") as Record<string, Outcome>;
  return { ended, outcomes };
}

function expectQuietEnd(ended: Ended): void {
  expect(ended.signal, "the program did not end by itself").toBeNull();
  expect(ended.code).toBe(0);
  expect(ended.err).toBe("");
}

describe.concurrent.each(LIBRARIES)("a server that cannot be used, by %s", (library) => {
  test("is a typed error that says what to do, soon, shows no secret, and leaves nothing that keeps a program alive", async () => {
    const { node } = guarded;
    const { ended, outcomes } = await tell(library, {
      "nobody listens": `redis://:${SECRET}@127.0.0.1:1`,
      "no such host": `redis://:${SECRET}@nowhere.invalid:6379`,
      "no node of the cluster": `redis+cluster://u:${SECRET}@127.0.0.1:1,127.0.0.1:2`,
      "a wrong password": `redis://:${SECRET}@127.0.0.1:${node.port}`,
      "a wrong user": `redis://nobody:${SECRET}@127.0.0.1:${node.port}`,
      "no password": `redis://127.0.0.1:${node.port}`,
      "too few permissions": `redis://limited:${SECRET}@127.0.0.1:${node.port}`,
      "no such database": `redis://127.0.0.1:${open.node.port}/99`,
      "not a cluster": `redis+cluster://127.0.0.1:${open.node.port}`,
      "a web server": `redis://:${SECRET}@127.0.0.1:${stranger("http")}`,
      "an echo": `redis://127.0.0.1:${stranger("echo")}`,
      "it hangs up": `redis://:${SECRET}@127.0.0.1:${stranger("hangUp")}`,
    });
    const summary = Object.fromEntries(
      Object.entries(outcomes).map(([name, { code, retryable }]) => [
        name,
        `${code}, ${retryable ? "may pass" : "final"}`,
      ]),
    );
    expect(summary).toEqual({
      "nobody listens": "backend, may pass",
      "no such host": "backend, may pass",
      "no node of the cluster": "backend, may pass",
      "a wrong password": "backend, final",
      "a wrong user": "backend, final",
      "no password": "backend, final",
      "too few permissions": "backend, final",
      "no such database": "backend, final",
      "not a cluster": expect.stringMatching(/^backend/),
      "a web server": expect.stringMatching(/^backend/),
      "an echo": expect.stringMatching(/^backend/),
      "it hangs up": "backend, may pass",
    });
    expect(outcomes["nobody listens"]?.message).toMatch(/127\.0\.0\.1:1.*running/s);
    expect(outcomes["a wrong password"]?.message).toMatch(/password/);
    expect(outcomes["no password"]?.message).toMatch(/password/);
    expect(outcomes["too few permissions"]?.message).toMatch(/NOPERM.*commands/s);
    for (const [name, { shown, tookMs }] of Object.entries(outcomes)) {
      expect(shown, name).not.toContain(SECRET);
      expect(tookMs, name).toBeLessThan(PROMPTLY_MS);
    }
    expectQuietEnd(ended);
  });

  test("one that accepts and never answers is an error within the bound, and does not keep a program alive", async () => {
    const { ended, outcomes } = await tell(library, {
      silent: `redis://:${SECRET}@127.0.0.1:${stranger("silent")}`,
    });
    expect(outcomes.silent).toMatchObject({ code: "backend", retryable: true });
    expect(outcomes.silent?.shown).not.toContain(SECRET);
    expect(outcomes.silent?.tookMs).toBeLessThan(PROMPTLY_MS);
    expectQuietEnd(ended);
  });

  test("sentinels that never answer are an error within the bound, and do not keep a program alive", async () => {
    const { ended, outcomes } = await tell(library, {
      silent: `redis+sentinel://u:${SECRET}@127.0.0.1:${stranger("silent")}/main`,
    });
    expect(outcomes.silent).toMatchObject({ code: "backend", retryable: true });
    expect(outcomes.silent?.shown).not.toContain(SECRET);
    expect(outcomes.silent?.tookMs).toBeLessThan(PROMPTLY_MS);
    expectQuietEnd(ended);
  });

  test("sentinels that are not there are an error within the bound, and do not keep a program alive", async () => {
    const { ended, outcomes } = await tell(library, {
      gone: `redis+sentinel://u:${SECRET}@127.0.0.1:1,127.0.0.1:2/main`,
    });
    expect(outcomes.gone).toMatchObject({ code: "backend", retryable: true });
    expect(outcomes.gone?.shown).not.toContain(SECRET);
    expect(outcomes.gone?.tookMs).toBeLessThan(PROMPTLY_MS);
    expectQuietEnd(ended);
  });
});
