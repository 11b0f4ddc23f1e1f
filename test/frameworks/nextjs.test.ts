import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "locktender";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { askRedis, type RedisSingle, startRedisSingle } from "../engines/redis/server.js";
import { freePort } from "../servers/free-port.js";
import { projectOf, start } from "./project.js";

const PAGE = "docs/guide/nextjs.md";
const NEXT = "node_modules/next/dist/bin/next";
const LAYOUT = `export default function Layout({ children }) {
  return <html><body>{children}</body></html>;
}
`;
const EDITS = 3;
const BUILD_TIMEOUT_MS = 180_000;

let project: Awaited<ReturnType<typeof projectOf>>;
/** One of its own, because connections are counted. */
let redis: RedisSingle;

beforeAll(async () => {
  project = await projectOf(PAGE, "module");
  await writeFile(join(project.folder, "app/layout.jsx"), LAYOUT);
  await writeFile(join(project.folder, "tsconfig.json"), '{ "compilerOptions": { "strict": true } }');
  redis = await startRedisSingle();
});

afterAll(async () => {
  await project?.remove();
  await redis?.stop();
});

/** Starts a server of the project, and gives what asks it. */
async function serve(command: "dev" | "start") {
  const port = await freePort();
  const env = {
    NODE_ENV: command === "dev" ? ("development" as const) : ("production" as const),
    NEXT_TELEMETRY_DISABLED: "1",
    REDIS_URL: redis.url,
  };
  const server = start(project.folder, [NEXT, command, "-p", String(port)], env);
  onTestFinished(async () => {
    server.send("SIGTERM"); // it ends the processes that it has started itself
    await server.exited;
  });
  await server.printed("Ready in");
  return async (path: string, body: object = {}) => {
    const response = await fetch(`http://127.0.0.1:${port}/api/${path}`, {
      method: "POST",
      body: JSON.stringify(body),
    });
    return { status: response.status, answer: (await response.json()) as Record<string, unknown> };
  };
}

describe("in production", () => {
  beforeAll(async () => {
    const env = { NODE_ENV: "production" as const, NEXT_TELEMETRY_DISABLED: "1" };
    const build = start(project.folder, [NEXT, "build"], env);
    expect(await build.exited, build.output).toBe(0);
    expect(build.output).not.toMatch(/warning|Module not found|Can't resolve/i);
  }, BUILD_TIMEOUT_MS);

  test("a route that does not wait answers 409 while the lock is taken, here or in another process", async () => {
    const ask = await serve("start");
    const both = await Promise.all([ask("orders/1"), ask("orders/1"), ask("orders/2")]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 200, 409]);
    await using locks = await connect(redis.url);
    await using _lease = await locks.mutex(["orders", "3"]).acquire();
    expect(await ask("orders/3")).toEqual({ status: 409, answer: { ran: false } });
  });

  test("a webhook that is delivered again gets the first answer", async () => {
    const ask = await serve("start");
    expect((await ask("webhook", { id: "a" })).answer).toEqual({ ran: true, handled: "a" });
    expect((await ask("webhook", { id: "a" })).answer).toEqual({ ran: false, handled: "a" });
  });
});

test(
  "in development, no change of a module makes a new connection",
  async () => {
    const ask = await serve("dev");
    const edit = async (file: string, change: (text: string) => string) => {
      const path = join(project.folder, file);
      await writeFile(path, change(await readFile(path, "utf8")));
    };
    expect((await ask("orders/1")).answer).toEqual({ ran: true });
    const before = await connections();
    for (let count = 1; count <= EDITS; count++) {
      await edit("lib/locks.ts", (text) => `${text}\nexport const edited${count} = true;\n`);
      await edit("app/api/orders/[id]/route.ts", (text) =>
        text.replace(/(?<=Response\.json\()\{.*?\}/, `{ ran, count: ${count} }`),
      );
      await vi.waitFor(
        async () => expect((await ask(`orders/${count}`)).answer).toEqual({ ran: true, count }),
        { timeout: 30_000, interval: 500 },
      );
    }
    expect(await connections()).toBe(before);
  },
  BUILD_TIMEOUT_MS,
);

/** Of clients that wait for a message or for their next command: not that of this question. */
async function connections(): Promise<number> {
  const list = String(await askRedis(redis.node.plainPort, "client", "list"));
  return list.trim().split("\n").length - 1;
}
