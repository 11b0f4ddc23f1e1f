import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { Redis } from "ioredis";

/** A Redis of our own on a free port, without persistence. */
export async function startRedis() {
  const port = await freePort();
  const args = ["--port", port, "--save", "", "--appendonly", "no", "--dir", tmpdir()];
  const child = spawn("redis-server", args.map(String), { stdio: "ignore" });
  const failed = new Promise((_, reject) => child.once("error", reject));
  const client = new Redis(port, { lazyConnect: true, retryStrategy: () => 50, maxRetriesPerRequest: 100 });
  client.on("error", () => undefined);
  await Promise.race([client.connect().catch(() => client.ping()), failed]);
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    client,
    async stop() {
      client.disconnect();
      child.kill();
      await new Promise((resolve) => child.once("exit", resolve));
    },
  };
}

export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
