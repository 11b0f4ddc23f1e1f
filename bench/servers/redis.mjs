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
    version: async () => /redis_version:(\S+)/.exec(await client.info("server"))[1],
    /** The microseconds of CPU that it has used so far, and how often each command was called. */
    async counters() {
      const [cpu, stats] = await Promise.all([client.info("cpu"), client.info("commandstats")]);
      const used = (kind) => Number(new RegExp(`used_cpu_${kind}:(\\S+)`).exec(cpu)[1]) * 1e6;
      const commands = stats.matchAll(/^cmdstat_(\w+):calls=(\d+),usec=(\d+)/gm);
      return {
        cpuUs: used("user") + used("sys"),
        calls: Object.fromEntries(Array.from(commands, ([, name, calls]) => [name, Number(calls)])),
      };
    },
    async stop() {
      client.disconnect();
      child.kill();
      await new Promise((resolve) => child.once("exit", resolve));
    },
  };
}

/** What a server has done between two readings of its counters, for a library that sends these commands. */
export function between(before, after, commands) {
  const sum = ({ calls }) => commands.reduce((total, name) => total + (calls[name] ?? 0), 0);
  return { cpuUs: after.cpuUs - before.cpuUs, requests: sum(after) - sum(before) };
}

export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
