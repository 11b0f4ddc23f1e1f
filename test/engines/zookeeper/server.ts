import { connect } from "node:net";
import { join } from "node:path";
import { freePorts } from "../../servers/free-port.js";
import { installedIn } from "../../servers/installed.js";
import type { PrivateHost } from "../../servers/private-network.js";
import { ensurePrograms } from "../../servers/programs.js";
import { allOrNone, ServerProcess, type Stoppable, stopAll } from "../../servers/server-process.js";

export interface ZooKeeperNode extends Stoppable {
  host: string;
  port: number;
  process: ServerProcess;
  /** "standalone", "leader" or "follower"; throws if it does not serve. */
  mode(): Promise<string>;
}

export interface ZooKeeper extends Stoppable {
  url: string;
  nodes: ZooKeeperNode[];
}

export interface ZooKeeperSetup {
  readonly members?: number;
  /** For each member a host of its own; else all of them listen on 127.0.0.1. */
  readonly hosts?: readonly PrivateHost[];
  /** Lines for zoo.cfg, and properties of the virtual machine. */
  readonly config?: readonly string[];
  /** More lines for one member each. */
  readonly configOf?: readonly (readonly string[])[];
  readonly properties?: readonly string[];
  readonly files?: Readonly<Record<string, string>>;
}

/** Debian's folder for what is not a program. */
const JARS = "/usr/share/java";
const SERVER_JARS = join(installedIn("zookeeper"), JARS);
export const ZOOKEEPER_PROGRAMS = [
  { program: "java", package: "default-jdk-headless" },
  ...[
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "netty-handler",
    "metrics-core",
    "snappy-java",
  ]
    .map((name) => join(JARS, `${name}.jar`))
    .map((file) => ({ program: file, package: packageOf(file) })),
];

/** The library brings along what its server needs. */
function packageOf(file: string): string {
  return file.includes("slf4j") ? "libslf4j-java" : "libzookeeper-java";
}

const classPath = (folder: string, ...names: string[]): string =>
  names.map((name) => join(folder, `${name}.jar`)).join(":");

/**
 * The server may be of another version; its Java, and Curator, are those of this machine. Its own file comes last: it
 * names others of this machine, which count where it stands.
 */
export const SERVER_CLASSES = classPath(
  SERVER_JARS,
  "zookeeper-jute",
  "slf4j-api",
  "slf4j-simple",
  "metrics-core",
  "snappy-java",
  "netty-all",
  "netty-common",
  "netty-buffer",
  "netty-codec",
  "netty-handler",
  "netty-transport",
  "netty-resolver",
  "netty-transport-native-epoll",
  "netty-transport-native-unix-common",
  "zookeeper",
);

/** What a program with Curator needs, to compile it and to run it. */
export const CURATOR_CLASSES = classPath(
  JARS,
  "curator-recipes",
  "curator-framework",
  "curator-client",
  "guava",
  "zookeeper",
  "zookeeper-jute",
  "slf4j-api",
  "slf4j-nop",
  "netty-all",
  "netty-common",
  "netty-buffer",
  "netty-codec",
  "netty-handler",
  "netty-transport",
  "netty-resolver",
);
export const CURATOR_PROGRAMS = [
  { program: "javac", package: "default-jdk-headless" },
  { program: join(JARS, "curator-recipes.jar"), package: "libcurator-recipes-java" },
  { program: join(JARS, "guava.jar"), package: "libguava-java" },
  { program: join(JARS, "slf4j-nop.jar"), package: "libslf4j-java" },
];

/** Short ticks, so that sessions of less than a second are possible; and nothing has to survive a power cut. */
const CONFIG = [
  "tickTime=200",
  "initLimit=50",
  "syncLimit=10",
  "minSessionTimeout=600",
  "maxSessionTimeout=200000",
  "maxClientCnxns=0",
  "admin.enableServer=false",
  "4lw.commands.whitelist=*",
  "dataDir=data",
];
const PROPERTIES = ["zookeeper.forceSync=no", "znode.container.checkIntervalMs=500"];

/** One server, or an ensemble. */
export async function startZooKeeper(setup: ZooKeeperSetup = {}): Promise<ZooKeeper> {
  await ensurePrograms(ZOOKEEPER_PROGRAMS);
  const members = setup.hosts?.length ?? setup.members ?? 1;
  const ports = await freePorts(members * 3);
  const at = Array.from({ length: members }, (_, index) => ({
    host: setup.hosts?.[index]?.address ?? "127.0.0.1",
    port: ports[index * 3] ?? 0,
    peers: `${ports[index * 3 + 1]}:${ports[index * 3 + 2]}`,
  }));
  const ensemble =
    members === 1 ? [] : at.map(({ host, peers }, index) => `server.${index + 1}=${host}:${peers}`);
  const nodes = await allOrNone(
    at.map(({ host, port }, index) => startMember(setup, index, host, port, ensemble)),
  );
  return {
    url: `zookeeper://${nodes.map(({ host, port }) => `${host}:${port}`).join(",")}`,
    nodes,
    stop: () => stopAll(nodes),
  };
}

async function startMember(
  { hosts, config = [], configOf = [], properties = [], files = {} }: ZooKeeperSetup,
  index: number,
  host: string,
  port: number,
  ensemble: readonly string[],
): Promise<ZooKeeperNode> {
  const own = [`clientPort=${port}`, `clientPortAddress=${host}`, ...(configOf[index] ?? [])];
  const lines = [...CONFIG, ...own, ...ensemble, ...config];
  const [program, ...before] = [...(hosts?.[index]?.enter ?? []), "sh"];
  const mode = () => askMode(host, port);
  // The server wants its number in its data folder, which it does not make itself.
  const start = `mkdir -p data && echo ${index + 1} > data/myid && exec java "$@"`;
  const process = await ServerProcess.start({
    name: `zookeeper-${port}`,
    program: program ?? "",
    files: { "zoo.cfg": `${lines.join("\n")}\n`, ...files },
    args: [
      ...before,
      ...["-c", start, "zookeeper", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
      ...[...PROPERTIES, ...properties].map((property) => `-D${property}`),
      ...["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", SERVER_CLASSES],
      "org.apache.zookeeper.server.quorum.QuorumPeerMain",
      "zoo.cfg",
    ],
    answers: mode,
  });
  return { host, port, process, mode, stop: () => process.stop() };
}

/** The answer to one of the servers' words of four letters. */
export function askServer(host: string, port: number, word: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: 1_000 });
    let text = "";
    socket.on("connect", () => socket.write(word));
    socket.on("data", (bytes) => {
      text += bytes.toString();
    });
    socket.on("timeout", () => socket.destroy(new Error("no answer")));
    socket.on("error", reject);
    socket.on("close", () => resolve(text));
  });
}

async function askMode(host: string, port: number): Promise<string> {
  const [, mode] = /^Mode: (\w+)/m.exec(await askServer(host, port, "srvr")) ?? [];
  if (mode === undefined) throw new Error(`ZooKeeper on port ${port} does not serve`);
  return mode;
}
