import { freePorts } from "./free-port.js";
import { allOrNone, ServerProcess, type Stoppable, stopAll } from "./server-process.js";

export interface EtcdNode extends Stoppable {
  port: number;
  process: ServerProcess;
}

export interface Etcd extends Stoppable {
  url: string;
  nodes: EtcdNode[];
}

export const ETCD_PROGRAM = { program: "etcd", package: "etcd-server" };

const HOST = "127.0.0.1";
/** Leases are whole seconds, and at least one and a half election timeouts: so the shortest here is 1 s. */
const TIMING = ["--heartbeat-interval", "30", "--election-timeout", "300"];

/** One server, or an ensemble of so many; `flags` go to each of them. */
export async function startEtcd(members = 1, flags: readonly string[] = []): Promise<Etcd> {
  const ports = await freePorts(members);
  const peerPorts = await freePorts(members);
  const ensemble = peerPorts.map((port, index) => `member-${index}=http://${HOST}:${port}`).join(",");
  const nodes = await allOrNone(
    ports.map((port, index) => startMember(index, port, peerPorts[index] ?? 0, ensemble, flags)),
  );
  return {
    url: `etcd://${ports.map((port) => `${HOST}:${port}`).join(",")}`,
    nodes,
    stop: () => stopAll(nodes),
  };
}

async function startMember(
  index: number,
  port: number,
  peerPort: number,
  ensemble: string,
  flags: readonly string[],
): Promise<EtcdNode> {
  const process = await ServerProcess.start({
    name: `etcd-${port}`,
    program: ETCD_PROGRAM.program,
    args: [
      ...["--name", `member-${index}`, "--data-dir", "data", "--logger", "zap", "--log-level", "warn"],
      ...["--listen-client-urls", `http://${HOST}:${port}`],
      ...["--advertise-client-urls", `http://${HOST}:${port}`],
      ...["--listen-peer-urls", `http://${HOST}:${peerPort}`],
      ...["--initial-advertise-peer-urls", `http://${HOST}:${peerPort}`],
      ...["--initial-cluster", ensemble],
      ...TIMING,
      ...flags,
    ],
    answers: async () => {
      const response = await fetch(`http://${HOST}:${port}/health`, { signal: AbortSignal.timeout(1_000) });
      const { health } = (await response.json()) as { health: string };
      if (health !== "true") throw new Error(`etcd on port ${port} is not healthy`);
    },
  });
  return { port, process, stop: () => process.stop() };
}
