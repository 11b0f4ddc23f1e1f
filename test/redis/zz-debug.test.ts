import { setTimeout as sleep } from "node:timers/promises";
import { test, onTestFinished } from "vitest";
import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { startRedisCluster, askRedis } from "../servers/redis.js";
test("dbg", async () => {
  const cluster = await startRedisCluster();
  onTestFinished(() => cluster.stop());
  for (const { port } of cluster.nodes) await askRedis(port, "CONFIG", "SET", "cluster-require-full-coverage", "no");
  await cluster.nodes[1]!.process.kill();
  for (let i = 0; i < 2; i++) {
  const t0 = performance.now();
  const c = new Cluster(cluster.nodes.map((n) => ({ host: "127.0.0.1", port: n.port })), { lazyConnect: true, enableOfflineQueue: false, slotsRefreshTimeout: 1000, clusterRetryStrategy: (a: number) => Math.min(a * 50, 1000), redisOptions: { lazyConnect: true, enableOfflineQueue: false, autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0, connectTimeout: 1000 } });
  c.on("error", (e) => console.log("error", e.message));
  const at = () => Math.round(performance.now() - t0);
  try { await c.connect(); console.log(at(), "connected", c.nodes("master").length); } catch (e) { console.log(at(), "failed", String(e)); }
  await Promise.all(c.nodes("master").map(async (n) => { try { await n.info("memory"); console.log(at(), "info ok", n.options.port); } catch (e) { console.log(at(), "info", n.options.port, String(e)); } }));
  for (const k of ["n0", "n1", "n2"]) { try { console.log(at(), k, await c.get(k)); } catch (e) { console.log(at(), k, String(e)); } }
  c.disconnect();
  const t1 = performance.now();
  const at1 = () => Math.round(performance.now() - t1);
  const r = createCluster({ rootNodes: cluster.nodes.map((n) => ({ socket: { host: "127.0.0.1", port: n.port } })), defaults: { disableOfflineQueue: true, socket: { connectTimeout: 1000, reconnectStrategy: () => 50 } } });
  r.on("error", (e) => console.log(at1(), "nr error", e.message));
  try { await Promise.race([r.connect(), sleep(5000)]); console.log(at1(), "nr connected", r.masters.length); } catch (e) { console.log(at1(), "nr failed", String(e)); }
  r.destroy();
  await sleep(6000);
  }
});
