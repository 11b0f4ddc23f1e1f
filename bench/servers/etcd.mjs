import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, startProcess } from "./process.mjs";

/** An etcd of our own, on the disk that every write waits for. */
export async function startEtcd() {
  const folder = await mkdtemp(join(tmpdir(), "locktender-bench-"));
  const [port, peerPort] = [await freePort(), await freePort()];
  const [url, peerUrl] = [port, peerPort].map((one) => `http://127.0.0.1:${one}`);
  const args = ["--data-dir", folder, "--log-level", "error", "--listen-client-urls", url];
  args.push("--advertise-client-urls", url, "--listen-peer-urls", peerUrl);
  args.push("--initial-advertise-peer-urls", peerUrl, "--initial-cluster", `default=${peerUrl}`);
  const isUp = async () => (await fetch(`${url}/health`)).ok;
  const server = await startProcess(["etcd", ...args], { isUp });
  return {
    url: `etcd://127.0.0.1:${port}`,
    version: async () => (await (await fetch(`${url}/version`)).json()).etcdserver,
    /** The messages that it has received so far. */
    async received() {
      const metrics = await (await fetch(`${url}/metrics`)).text();
      const counts = metrics.matchAll(/^grpc_server_msg_received_total\{.*\} (\S+)$/gm);
      return Array.from(counts, ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
    },
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
