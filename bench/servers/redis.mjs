import { tmpdir } from "node:os";
import { Redis } from "ioredis";
import { freePort, startProcess } from "./process.mjs";

/** A Redis of our own on a free port, without persistence. */
export async function startRedis() {
  const port = await freePort();
  const command = ["redis-server", "--port", port, "--save", "", "--appendonly", "no", "--dir", tmpdir()];
  const client = new Redis(port, { retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on("error", () => undefined);
  // A server of another program may answer at this port.
  const isUp = async (pid) => (await client.info("server")).includes(`process_id:${pid}\r\n`);
  const server = await startProcess(command, { isUp }).catch((error) => {
    client.disconnect();
    throw error;
  });
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
      await server.stop();
    },
  };
}

/** What a server has done between two readings of its counters, for a library that sends these commands. */
export function between(before, after, commands) {
  const sum = ({ calls }) => commands.reduce((total, name) => total + (calls[name] ?? 0), 0);
  return { cpuUs: after.cpuUs - before.cpuUs, requests: sum(after) - sum(before) };
}
