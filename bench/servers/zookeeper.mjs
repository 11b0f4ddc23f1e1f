import { execFile, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { freePort, startProcess } from "./process.mjs";

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
const CURATOR_BENCH = fileURLToPath(new URL("./CuratorBench.java", import.meta.url));
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
  const main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
  const isUp = async () => (await ask(port, "srvr")).includes("Mode:");
  const server = await startProcess(["java", "-Xmx512m", "-cp", SERVER, main, "zoo.cfg"], {
    cwd: folder,
    isUp,
  });
  return {
    url: `zookeeper://127.0.0.1:${port}`,
    /** How many requests it has received so far. */
    async received() {
      return Number(/^Received: (\d+)/m.exec(await ask(port, "srvr"))[1]);
    },
    async version() {
      return /^Zookeeper version: ([\d.]+)/m.exec(await ask(port, "srvr"))[1];
    },
    /** Curator's mutex in a process of its own, which stays, so that its code is compiled when it counts. */
    async startCurator() {
      await run("javac", ["-cp", CURATOR, "-d", folder, CURATOR_BENCH]);
      const args = ["-cp", `${CURATOR}:${folder}`, "CuratorBench", `127.0.0.1:${port}`];
      const java = spawn("java", args, { stdio: ["pipe", "pipe", "ignore"] });
      const answers = createInterface(java.stdout)[Symbol.asyncIterator]();
      return {
        /** Grants a second of so many threads on one lock. */
        async rate(threads, ms) {
          java.stdin.write(`${threads} ${ms}\n`);
          return Number((await answers.next()).value);
        },
        async stop() {
          java.stdin.end();
          await new Promise((resolve) => java.once("exit", resolve));
        },
      };
    },
    async stop() {
      await server.stop();
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
