import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const JARS = "/usr/share/java";
const NETTY = ["common", "buffer", "codec", "handler", "transport", "resolver"].map(
  (part) => `netty-${part}`,
);
const classPath = (...names) => names.map((name) => `${JARS}/${name}.jar`).join(":");
const SERVER = classPath(
  "zookeeper",
  "zookeeper-jute",
  "slf4j-api",
  "slf4j-nop",
  "metrics-core",
  "snappy-java",
  ...NETTY,
);
const CURATOR = `${SERVER}:${classPath("curator-recipes", "curator-framework", "curator-client", "guava")}`;

/** A ZooKeeper of our own with its usual settings, and Curator beside it. */
export async function startZooKeeper() {
  const folder = await mkdtemp(join(tmpdir(), "locktender-bench-"));
  const port = await freePort();
  const config = [
    `dataDir=${folder}/data`,
    `clientPort=${port}`,
    "tickTime=2000",
    "maxSessionTimeout=600000",
  ];
  const more = ["maxClientCnxns=0", "admin.enableServer=false", "4lw.commands.whitelist=*"];
  await writeFile(join(folder, "zoo.cfg"), [...config, ...more].join("\n"));
  const main = ["-Xmx512m", "-cp", SERVER, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"];
  const child = spawn("java", main, { cwd: folder, stdio: "ignore" });
  const source = fileURLToPath(new URL("./CuratorBench.java", import.meta.url));
  await run("javac", ["-cp", CURATOR, "-d", folder, source]);
  while (!(await ask(port, "srvr").catch(() => "")).includes("Mode:"))
    await new Promise((r) => setTimeout(r, 50));
  return {
    url: `zookeeper://127.0.0.1:${port}`,
    /** How many requests it has received so far. */
    async received() {
      return Number(/^Received: (\d+)/m.exec(await ask(port, "srvr"))[1]);
    },
    /** Cycles a second of Curator's mutex. */
    async curator(threads, cycles) {
      const args = ["-cp", `${CURATOR}:${folder}`, "CuratorBench", `127.0.0.1:${port}`, threads, cycles];
      return Number((await run("java", args.map(String))).stdout);
    },
    async stop() {
      child.kill();
      await new Promise((resolve) => child.once("exit", resolve));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function ask(port, word) {
  return new Promise((resolve, reject) => {
    let text = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(word));
    socket.on("data", (bytes) => {
      text += bytes;
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(text));
  });
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
