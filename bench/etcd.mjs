import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks } from "locktender";
import { etcd } from "locktender/etcd";
import { median, timeMs } from "./bare.mjs";
import { freePort } from "./server.mjs";

const ROUNDS = 9;
const CYCLES = 200;

/** An etcd of our own, on the disk that every write waits for. */
async function startEtcd() {
  const folder = await mkdtemp(join(tmpdir(), "locktender-bench-"));
  const [port, peerPort] = [await freePort(), await freePort()];
  const [url, peerUrl] = [port, peerPort].map((one) => `http://127.0.0.1:${one}`);
  const args = ["--data-dir", folder, "--log-level", "error", "--listen-client-urls", url];
  args.push("--advertise-client-urls", url, "--listen-peer-urls", peerUrl);
  args.push("--initial-advertise-peer-urls", peerUrl, "--initial-cluster", `default=${peerUrl}`);
  const child = spawn("etcd", args, { stdio: "ignore" });
  const isUp = () =>
    fetch(`${url}/health`).then(
      (response) => response.ok,
      () => false,
    );
  while (!(await isUp())) await new Promise((resolve) => setTimeout(resolve, 50));
  return {
    url: `etcd://127.0.0.1:${port}`,
    /** The messages that it has received so far. */
    async received() {
      const metrics = await (await fetch(`${url}/metrics`)).text();
      const counts = metrics.matchAll(/^grpc_server_msg_received_total\{.*\} (\S+)$/gm);
      return Array.from(counts, ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
    },
    async stop() {
      child.kill();
      await new Promise((resolve) => child.once("exit", resolve));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** One server: cycles one after the other, then what a grant costs when 10, 100 and 1,000 wait. */
export async function* measure() {
  const server = await startEtcd();
  const locks = createLocks(etcd({ url: server.url }), { ttl: "10m", wait: "10m" });
  try {
    const mutex = locks.mutex("bench");
    const rates = [];
    for (let round = -1; round < ROUNDS; round++) {
      const tookMs = await timeMs(async () => {
        for (let cycle = 0; cycle < CYCLES; cycle++) await mutex.run(() => undefined);
      });
      if (round >= 0) rates.push((CYCLES / tookMs) * 1_000);
    }
    yield `acquire + release, one after the other  ${median(rates).toFixed(0)} cycles/s`;
    for (const waiters of [10, 100, 1_000]) yield contended(locks, server, waiters);
  } finally {
    await locks.close();
    await server.stop();
  }
}

async function contended(locks, server, waiters) {
  const mutex = locks.mutex(["waiters", String(waiters)]);
  const holder = await mutex.acquire();
  const waits = Array.from({ length: waiters }, () => mutex.run(() => undefined));
  while ((await locks.inspect(mutex.name)).waiters.length < waiters)
    await new Promise((resolve) => setTimeout(resolve, 50));
  const before = await server.received();
  const tookMs = await timeMs(async () => {
    await holder.release();
    await Promise.all(waits);
  });
  const asked = (await server.received()) - before;
  return `${waiters} waiters: ${((waiters / tookMs) * 1_000).toFixed(0)} grants/s, ${(asked / waiters).toFixed(2)} messages to the server per grant`;
}
