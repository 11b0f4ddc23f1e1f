import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createLocks } from "locktender";
import { zookeeper } from "locktender/zookeeper";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { freePort } from "../../servers/free-port.js";
import { ServerProcess } from "../../servers/server-process.js";
import { askServer, SERVER_CLASSES } from "./server.js";
import { TestClient } from "./test-client.js";

const NAME = "orders";
const SOURCE = fileURLToPath(new URL("./SequenceEnd.java", import.meta.url));

let server: ServerProcess;
let url: string;
beforeAll(async () => {
  const port = await freePort();
  url = `zookeeper://127.0.0.1:${port}`;
  const words = "-Dzookeeper.4lw.commands.whitelist=*";
  server = await ServerProcess.start({
    name: "zookeeper-sequence",
    program: "java",
    args: ["-Xmx128m", words, "-cp", SERVER_CLASSES, SOURCE, `${port}`, `/locktender/${NAME}`],
    answers: async () => {
      if (!(await askServer("127.0.0.1", port, "srvr")).includes("Mode:")) throw new Error("not yet");
    },
  });
});
afterAll(() => server.stop());

function open() {
  const locks = createLocks(zookeeper({ url }), { ttl: "10s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

test("when the numbers of a name are used up, and repeat themselves, the order of coming still holds", async () => {
  const client = await TestClient.open(url);
  onTestFinished(() => client.close());
  const nodes = () => client.children(`/locktender/${NAME}`);
  const first = await open().mutex(NAME).acquire();
  let holders = 0;
  const order: number[] = [];
  const tokens = [first.token];
  const takeTurn = async (index: number) => {
    const lease = await open().mutex(NAME).acquire({ wait: "30s" });
    expect(++holders).toBe(1);
    order.push(index);
    tokens.push(lease.token);
    await sleep(20);
    holders--;
    await lease.release();
  };
  const turns: Promise<void>[] = [];
  for (let index = 0; index < 20; index++) {
    turns.push(takeTurn(index));
    // Each comes when the one before it is in the queue. The servers give the last number again and again.
    await expect.poll(async () => (await nodes()).length, { timeout: 10_000 }).toBe(index + 2);
  }
  const numbers = (await nodes()).map((node) => node.slice(-10));
  expect(numbers.filter((number) => number === "2147483647").length).toBeGreaterThan(10);
  await first.release();
  await Promise.all(turns);
  expect(order).toEqual(order.toSorted((a, b) => a - b));
  expect(tokens).toEqual(tokens.toSorted((a, b) => Number(a - b)));
  const last = await open().mutex(NAME).acquire();
  const others = open();
  for (let index = 0; index < 20; index++) {
    // A try would see that it is taken, and not come at all.
    const refused = others.mutex(NAME).acquire({ wait: 1 });
    await expect(refused).rejects.toMatchObject({ code: "timeout" });
  }
  expect(last.held).toBe(true);
});
