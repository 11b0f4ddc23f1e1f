import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "locktender";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { freePort } from "../servers/free-port.js";
import { shared } from "../servers/shared.js";
import { compile, projectOf, type Replica, start } from "./project.js";

const PAGE = "docs/guide/nestjs.md";
/** As the template of Nest has it. */
const TEMPLATE = {
  module: "commonjs",
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  isolatedModules: true,
  esModuleInterop: true,
  skipLibCheck: true,
};
/** The page's job, as often as a test can wait for it. */
const EACH_SECOND = (text: string) => text.replace('"0 3 * * *"', '"* * * * * *"');

type App = Replica & { readonly url: string; readonly redisUrl: string };

let project: Awaited<ReturnType<typeof projectOf>>;
let redis: string;
let replicas: App[] = [];

beforeAll(async () => {
  project = await projectOf(PAGE, "commonjs", EACH_SECOND);
  await compile(project.folder, TEMPLATE);
  redis = (await shared("redis")).url;
}, 120_000);

afterEach(async () => {
  for (const replica of replicas) replica.send("SIGKILL");
  await Promise.all(replicas.map(({ exited }) => exited));
  replicas = [];
});

afterAll(() => project?.remove());

/** Two that share their locks, and with no other test. */
function startTwo(): Promise<[App, App]> {
  const url = `${redis}?prefix=nestjs-${randomUUID()}`;
  return Promise.all([startApp(url), startApp(url)]);
}

async function startApp(redisUrl: string): Promise<App> {
  const port = await freePort();
  const env = { REDIS_URL: redisUrl, PORT: String(port) };
  const replica = start(project.folder, ["out/src/main.js"], env);
  const app = Object.assign(replica, { url: `http://127.0.0.1:${port}`, redisUrl });
  replicas.push(app);
  await replica.printed("successfully started");
  return app;
}

async function ask(app: App, method: string, path: string): Promise<{ status: number; body: string }> {
  const response = await fetch(`${app.url}/${path}`, { method });
  return { status: response.status, body: await response.text() };
}

/** Begins to ship an order; resolves when the lock of that order is held. */
async function startShipping(app: App, id: string): Promise<{ readonly answer: ReturnType<typeof ask> }> {
  const answer = ask(app, "POST", `orders/${id}/ship`);
  await using locks = await connect(app.redisUrl);
  await vi.waitFor(async () => expect((await locks.inspect(["orders", id])).holders).toHaveLength(1), {
    timeout: 10_000,
  });
  return { answer };
}

const busy = { status: 409, body: JSON.stringify({ statusCode: 409, message: "orders:1 is in use" }) };

test("it is compiled to CommonJS", async () => {
  const text = await readFile(join(project.folder, "out/src/locks.module.js"), "utf8");
  expect(text).toContain('require("locktender")');
});

test("methods that are locked keep their routes, and exclude each other over all replicas", async () => {
  const [one, other] = await startTwo();
  const shipping = await startShipping(one, "1");
  const answers = [
    ask(other, "POST", "orders/1/ship"), // waits for 1 s
    ask(other, "DELETE", "orders/1"), // does not wait
    ask(other, "DELETE", "orders/2"),
  ];
  expect(await Promise.all(answers)).toEqual([busy, busy, { status: 200, body: "cancelled 2" }]);
  expect(await shipping.answer).toEqual({ status: 202, body: "shipped 1" });
  expect(await ask(other, "DELETE", "orders/1")).toEqual({ status: 200, body: "cancelled 1" });
});

test("of two replicas in which a cron job fires, one runs it", async () => {
  const both = await startTwo();
  for (const replica of both) await replica.printed("another replica");
  const output = both.map((replica) => replica.output).join("");
  const printed = [...output.matchAll(/^(\S+): printing$/gm)].map(([, day]) => day);
  expect(printed.length).toBeGreaterThan(0);
  // The test may run at midnight.
  expect(new Set(printed).size).toBe(printed.length);
  expect(output.match(/: this replica$/gm)).toHaveLength(printed.length);
});

test("a SIGTERM lets requests end, and their locks are free at once", async () => {
  const [one, other] = await startTwo();
  const shipping = await startShipping(one, "1");
  one.send("SIGTERM");
  expect(await ask(other, "DELETE", "orders/1")).toEqual(busy);
  expect(await shipping.answer).toEqual({ status: 202, body: "shipped 1" });
  expect(await one.exited).toBe("SIGTERM");
  // No wait for the ttl.
  expect(await ask(other, "DELETE", "orders/1")).toEqual({ status: 200, body: "cancelled 1" });
});

test("a SIGTERM lets a job end that runs, though no request does", async () => {
  const app = await startApp(`${redis}?prefix=nestjs-${randomUUID()}`);
  await app.printed(": printing");
  expect(app.output).not.toContain(": printed");
  app.send("SIGTERM");
  expect(await app.exited).toBe("SIGTERM");
  expect(app.output).toContain(": printed");
});
