import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ENGINE_NAMES, entryOf, type SharedName } from "../engines.js";
import { type Stoppable, stopAll } from "./server-process.js";
import { loadEngineServers, type Running, type SharedServer } from "./shared-server.js";

async function start(name: string): Promise<Running> {
  const engine = ENGINE_NAMES.find((one) => entryOf(one).servers.includes(name));
  const found = engine && (await loadEngineServers(engine)).start[name];
  if (found === undefined) throw new Error(`test/engines.ts has no engine with a server called ${name}`);
  return await found();
}

/**
 * Starts each of the servers that tests share when the first test asks for it, by HTTP: the tests run in
 * several processes, and few need all servers.
 */
export async function startHost(): Promise<Stoppable & { readonly url: string }> {
  const started = new Map<string, Promise<Running>>();
  const serve = (name: SharedName): Promise<SharedServer> => {
    const given = process.env[`LOCKTENDER_TEST_${name.toUpperCase().replaceAll("-", "_")}_URL`];
    if (given) return Promise.resolve({ url: given, nodes: [], sentinels: [] });
    const server = started.get(name) ?? start(name);
    started.set(name, server);
    return server;
  };
  const host = createServer(async (request, response) => {
    try {
      const { url, nodes, sentinels } = await serve(request.url?.slice(1) as SharedName);
      response.end(JSON.stringify({ url, nodes, sentinels }));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
  host.listen(0, "127.0.0.1");
  await once(host, "listening");
  return {
    url: `http://127.0.0.1:${(host.address() as AddressInfo).port}`,
    stop: async () => {
      host.close();
      host.closeAllConnections();
      const settled = await Promise.allSettled(started.values());
      await stopAll(settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : [])));
    },
  };
}
