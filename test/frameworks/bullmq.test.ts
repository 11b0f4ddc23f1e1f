import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { askRedis, type RedisSingle, startRedisSingle } from "../engines/redis/server.js";
import { compile, projectOf, start } from "./project.js";

const PAGE = "docs/guide/bullmq.md";
const CUSTOMERS = ["ann", "bob", "cy"];
const EACH = 6;

/** Adds the jobs, ends when they are done, and says how it went. */
const PRODUCER = `
import { Queue, QueueEvents } from "bullmq";
import { connection, locks } from "./shared.js";

const queue = new Queue("invoices", { connection });
const events = new QueueEvents("invoices", { connection });
await events.waitUntilReady();
const customers = ${JSON.stringify(CUSTOMERS)};
const jobs = await queue.addBulk(
  customers.flatMap((customer) =>
    Array.from({ length: ${EACH} }, () => ({ name: "bill", data: { customer }, opts: { attempts: 1 } })),
  ),
);
await Promise.all(jobs.map((job) => job.waitUntilFinished(events)));
const counts = await queue.getJobCounts("completed", "failed");
console.log("all done: " + JSON.stringify(counts));
await events.close();
await queue.close();
await locks.close();
connection.disconnect();
`;

let project: Awaited<ReturnType<typeof projectOf>>;
/** One of its own: BullMQ has no name for a run of tests. */
let redis: RedisSingle;

beforeAll(async () => {
  redis = await startRedisSingle();
  // What the workers would print goes to the server, so that it is in one order.
  project = await projectOf(PAGE, "module", (text) =>
    text
      .replace("redis://127.0.0.1:6379", redis.url)
      .replaceAll("console.log(", `await connection.rpush("log", `),
  );
  await writeFile(join(project.folder, "producer.ts"), PRODUCER);
  await compile(project.folder, { module: "nodenext", skipLibCheck: true });
}, 120_000);

afterAll(async () => {
  await project?.remove();
  await redis?.stop();
});

test.each(["worker", "polite-worker"])(
  "%s: of each customer one job at a time is worked at, over two processes with ten jobs each",
  async (name) => {
    await askRedis(redis.node.plainPort, "flushall");
    const workers = [1, 2].map(() => start(project.folder, [`out/${name}.js`]));
    const producer = start(project.folder, ["out/producer.js"]);
    onTestFinished(async () => {
      const all = [...workers, producer];
      for (const one of all) one.send("SIGKILL");
      await Promise.all(all.map(({ exited }) => exited));
    });
    expect(await producer.exited, producer.output).toBe(0);
    const jobs = CUSTOMERS.length * EACH;
    expect(producer.output).toContain(`all done: {"completed":${jobs},"failed":0}`);
    const log = (await askRedis(redis.node.plainPort, "lrange", "log", 0, -1)) as string[];
    expect(log).toHaveLength(2 * jobs);
    for (const customer of CUSTOMERS) {
      const turns = log.filter((line) => line.startsWith(`${customer} `));
      const expected = Array.from({ length: EACH }, () => [`${customer} begins`, `${customer} ends`]);
      expect(turns).toEqual(expected.flat());
    }
    // Customers do not wait for each other.
    expect(log.some((line, at) => line.endsWith("begins") && log[at + 1]?.endsWith("begins"))).toBe(true);
    for (const worker of workers) worker.send("SIGTERM");
    expect(await Promise.all(workers.map(({ exited }) => exited))).toEqual([0, 0]);
    expect(workers.map(({ output }) => output)).toEqual(["", ""]);
  },
  60_000,
);
