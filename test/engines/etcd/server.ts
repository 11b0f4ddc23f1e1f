import { once } from "node:events";
import { connect } from "node:net";
import type { Certificates } from "../../servers/certificates.js";
import { freePorts } from "../../servers/free-port.js";
import { fileOf } from "../../servers/installed.js";
import type { PrivateHost } from "../../servers/private-network.js";
import { allOrNone, ServerProcess, type Stoppable, stopAll } from "../../servers/server-process.js";

export interface EtcdNode extends Stoppable {
  host: string;
  port: number;
  process: ServerProcess;
}

export interface Etcd extends Stoppable {
  url: string;
  nodes: EtcdNode[];
}

export interface EtcdSetup {
  readonly members?: number;
  /** For each member a host of its own; else all of them listen on 127.0.0.1. */
  readonly hosts?: readonly PrivateHost[];
  /** Servers that show a certificate, and want one of their clients. */
  readonly certificates?: Certificates;
  /** PEM texts: tokens are signed with these instead of being kept by the servers. */
  readonly tokenKeys?: { readonly privateKey: string; readonly publicKey: string };
}

export const ETCD_PROGRAM = { program: "etcd", package: "etcd-server" };
export const ETCDCTL_PROGRAM = { program: "etcdctl", package: "etcd-client" };

/** Leases are whole seconds, and at least one and a half election timeouts: so the shortest here is 1 s. */
const TIMING = ["--heartbeat-interval", "60", "--election-timeout", "600"];

/** One server, or an ensemble. */
export async function startEtcd(setup: EtcdSetup = {}): Promise<Etcd> {
  const members = setup.hosts?.length ?? setup.members ?? 1;
  const ports = await freePorts(members);
  const peerPorts = await freePorts(members);
  const hosts = ports.map((_, index) => setup.hosts?.[index]?.address ?? "127.0.0.1");
  const ensemble = peerPorts.map((port, index) => `member-${index}=http://${hosts[index]}:${port}`).join(",");
  const nodes = await allOrNone(
    ports.map((port, index) =>
      startMember(setup, index, {
        host: hosts[index] ?? "",
        port,
        peerPort: peerPorts[index] ?? 0,
        ensemble,
      }),
    ),
  );
  return {
    url: `etcd://${nodes.map(({ host, port }) => `${host}:${port}`).join(",")}`,
    nodes,
    stop: () => stopAll(nodes),
  };
}

async function startMember(
  { hosts, certificates, tokenKeys }: EtcdSetup,
  index: number,
  at: { host: string; port: number; peerPort: number; ensemble: string },
): Promise<EtcdNode> {
  const { host, port, peerPort, ensemble } = at;
  const [program = "", ...before] = [...(hosts?.[index]?.enter ?? []), fileOf("etcd", "/usr/bin/etcd")];
  const scheme = certificates === undefined ? "http" : "https";
  const process = await ServerProcess.start({
    name: `etcd-${port}`,
    program,
    files: {
      ...(certificates === undefined
        ? undefined
        : { ca: certificates.ca, cert: certificates.server.cert, key: certificates.server.key }),
      ...(tokenKeys === undefined
        ? undefined
        : { "token.key": tokenKeys.privateKey, "token.pub": tokenKeys.publicKey }),
    },
    args: [
      ...before,
      ...["--name", `member-${index}`, "--data-dir", "data", "--logger", "zap", "--log-level", "warn"],
      ...["--listen-client-urls", `${scheme}://${host}:${port}`],
      ...["--advertise-client-urls", `${scheme}://${host}:${port}`],
      ...["--listen-peer-urls", `http://${host}:${peerPort}`],
      ...["--initial-advertise-peer-urls", `http://${host}:${peerPort}`],
      ...["--initial-cluster", ensemble],
      ...TIMING,
      ...(certificates === undefined
        ? []
        : ["--client-cert-auth", "--trusted-ca-file", "ca", "--cert-file", "cert", "--key-file", "key"]),
      ...(tokenKeys === undefined
        ? []
        : ["--auth-token", "jwt,priv-key=token.key,pub-key=token.pub,sign-method=RS256,ttl=10m"]),
    ],
    answers: async () => {
      if (certificates === undefined) await isHealthy(host, port);
      else await isListening(host, port);
    },
  });
  return { host, port, process, stop: () => process.stop() };
}

async function isHealthy(host: string, port: number): Promise<void> {
  const response = await fetch(`http://${host}:${port}/health`, { signal: AbortSignal.timeout(1_000) });
  const { health } = (await response.json()) as { health: string };
  if (health !== "true") throw new Error(`etcd on port ${port} is not healthy`);
}

async function isListening(host: string, port: number): Promise<void> {
  const socket = connect({ host, port });
  try {
    await once(socket, "connect");
  } finally {
    socket.destroy();
  }
}
