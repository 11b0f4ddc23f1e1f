import { createLocks } from "locktender";
import { redlock } from "locktender/redlock";
import { startRedis } from "./redis.mjs";

const NODES = 5;

/** Five Redis servers that vote, and the URL under which they do. */
export async function startQuorum() {
  const servers = await Promise.all(Array.from({ length: NODES }, startRedis));
  const url = `redlock://${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
  const locks = createLocks(redlock({ url, fresh: true }));
  await locks.mutex("declared").run(() => undefined);
  await locks.close();
  return {
    url,
    /** Those of all servers together. */
    async counters() {
      const each = await Promise.all(servers.map((server) => server.counters()));
      const calls = {};
      for (const [name, count] of each.flatMap((one) => Object.entries(one.calls))) {
        calls[name] = (calls[name] ?? 0) + count;
      }
      return { cpuUs: each.reduce((sum, { cpuUs }) => sum + cpuUs, 0), calls };
    },
    stop: () => Promise.all(servers.map((server) => server.stop())),
  };
}
