import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect as connectLocks, createLocks } from "locktender";
import { zookeeper } from "locktender/zookeeper";
import { expect, onTestFinished, test } from "vitest";
import { askServer, startZooKeeper, type ZooKeeper, type ZooKeeperSetup } from "./server.js";

async function start(setup: ZooKeeperSetup = {}): Promise<ZooKeeper> {
  const server = await startZooKeeper(setup);
  onTestFinished(() => server.stop());
  return server;
}

function open(url: string) {
  const locks = createLocks(zookeeper({ url }), { ttl: "10s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

test("servers that want a user are told apart, and then left alone", async () => {
  const server = await start({
    properties: [
      "zookeeper.enforce.auth.enabled=true",
      "zookeeper.enforce.auth.schemes=digest",
      "zookeeper.DigestAuthenticationProvider.superDigest=x:y",
    ],
  });
  const [{ host, port } = { host: "", port: 0 }] = server.nodes;
  const received = async () =>
    Number(/^Received: (\d+)/m.exec(await askServer(host, port, "srvr"))?.[1] ?? Number.NaN);
  const refused = { code: "backend", retryable: false, message: expect.stringContaining("want a user") };
  await expect(open(server.url).mutex("orders").acquire()).rejects.toMatchObject(refused);
  const before = await received();
  await sleep(1_000);
  expect((await received()) - before).toBeLessThan(10);
  const lease = await open(server.url.replace("://", "://ada:secret@")).mutex("orders").acquire();
  expect(lease.held).toBe(true);
});

test("a server that lets us in and hangs up at the first word is not asked without a pause", async () => {
  const server = await start();
  const [{ host, port } = { host: "", port: 0 }] = server.nodes;
  let connections = 0;
  const between = createServer((client) => {
    connections++;
    const behind = connect({ host, port });
    let words = 0;
    client.on("data", (bytes) => void (++words === 1 ? behind.write(bytes) : client.destroy()));
    behind.pipe(client, { end: false });
    client.on("error", () => undefined).on("close", () => behind.destroy());
    behind.on("error", () => undefined);
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void between.close());
  await sleep(50);
  const locks = open(`zookeeper://127.0.0.1:${(between.address() as { port: number }).port}`);
  await expect(locks.mutex("orders").tryAcquire()).rejects.toMatchObject({ code: "backend" });
  const before = connections;
  await sleep(2_000);
  expect(connections - before).toBeGreaterThan(0);
  expect(connections - before).toBeLessThan(20);
});

test("a host that has too many connections is told that this may be it", async () => {
  const { url } = await start({ config: ["maxClientCnxns=1"] });
  await open(url).mutex("orders").acquire();
  const refused = { code: "backend", message: expect.stringContaining("maxClientCnxns") };
  await expect(open(url).mutex("orders").tryAcquire()).rejects.toMatchObject(refused);
});

test("servers that allow no session as long as the ttl are told apart by connect, not by the first lock", async () => {
  const { url } = await start({ config: ["maxSessionTimeout=9000"] });
  for (const options of [{}, { ttl: "20s" }] as const) {
    await expect(connectLocks(url, options)).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringMatching(/at most 9000 ms.*connect\(url, \{ ttl: 9000 \}\).*maxSessionTimeout/),
    });
  }
  const locks = await connectLocks(url, { ttl: 9000 });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  expect(await locks.mutex("orders").run((lease) => lease.held)).toBe(true);
});
