import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createLocks, type Locks } from "locktender";
import { zookeeper } from "locktender/zookeeper";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { ensurePrograms } from "../../servers/programs.js";
import { CURATOR_CLASSES, CURATOR_PROGRAMS, startZooKeeper, type ZooKeeper } from "./server.js";
import { TestClient } from "./test-client.js";

const SOURCE = fileURLToPath(new URL("./CuratorLock.java", import.meta.url));

let server: ZooKeeper;
let folder: string;
beforeAll(async () => {
  await ensurePrograms(CURATOR_PROGRAMS);
  folder = await mkdtemp(join(tmpdir(), "locktender-curator-"));
  const compile = ["-cp", CURATOR_CLASSES, "-d", folder, SOURCE];
  [server] = await Promise.all([startZooKeeper(), promisify(execFile)("javac", compile)]);
});
afterAll(async () => {
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

let names = 0;
let name: string;
beforeEach(() => {
  // A slash and a percent, so that the encoding counts.
  name = `shared/${++names}%`;
});
const nodeOf = (lock: string): string => `/locktender/${encodeURIComponent(lock)}`;

function open(): Locks {
  const locks = createLocks(zookeeper({ url: server.url }));
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** Curator's lock in a process of its own. */
class Curator {
  readonly #lines: string[] = [];
  readonly #process: ChildProcess;

  private constructor(process: ChildProcess) {
    this.#process = process;
    if (process.stdout !== null) {
      createInterface(process.stdout).on("line", (line) => void this.#lines.push(line));
    }
  }

  static async start(path: string): Promise<Curator> {
    const args = ["-Xmx64m", "-XX:TieredStopAtLevel=1", "-cp", `${CURATOR_CLASSES}:${folder}`, "CuratorLock"];
    const address = server.url.replace("zookeeper://", "");
    const child = spawn("java", [...args, address, path], { stdio: ["pipe", "pipe", "ignore"] });
    onTestFinished(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    });
    const curator = new Curator(child);
    await curator.says("ready");
    return curator;
  }

  order(order: "acquire" | "release"): void {
    this.#process.stdin?.write(`${order}\n`);
  }

  heard(line: string): boolean {
    return this.#lines.includes(line);
  }

  async says(line: string): Promise<void> {
    await expect.poll(() => this.heard(line), { timeout: 20_000, interval: 5 }).toBe(true);
    this.#lines.length = 0;
  }
}

async function inLine(locks: Locks, count: number): Promise<void> {
  await expect
    .poll(async () => {
      const { holders, waiters } = await locks.inspect(name);
      return holders.length + waiters.length;
    })
    .toBe(count);
}

test("Curator's mutex waits for ours, and ours for Curator's", async () => {
  const locks = open();
  const curator = await Curator.start(nodeOf(name));
  const first = await locks.mutex(name).acquire();
  curator.order("acquire");
  await inLine(locks, 2);
  await sleep(200);
  expect(curator.heard("acquired")).toBe(false);
  await first.release();
  await curator.says("acquired");

  expect(await locks.mutex(name).tryAcquire()).toBe(null);
  const waiting = locks.mutex(name).acquire();
  await inLine(locks, 2);
  const { holders } = await locks.inspect(name);
  expect(holders).toMatchObject([{ owner: { instance: "another program" } }]);
  curator.order("release");
  const second = await waiting;
  expect(second.token).toBeGreaterThan(first.token);
  await second.release();
});

test("both are served in the order in which they came", async () => {
  const locks = open();
  const holder = await locks.mutex(name).acquire();
  const [early, late] = await Promise.all([Curator.start(nodeOf(name)), Curator.start(nodeOf(name))]);
  early.order("acquire");
  await inLine(locks, 2);
  const ours = locks.mutex(name).acquire();
  await inLine(locks, 3);
  late.order("acquire");
  await inLine(locks, 4);

  await holder.release();
  await early.says("acquired");
  early.order("release");
  const lease = await ours;
  expect(late.heard("acquired")).toBe(false);
  await lease.release();
  await late.says("acquired");
});

test("an operator can take the lock away from Curator, too", async () => {
  const locks = open();
  const curator = await Curator.start(nodeOf(name));
  curator.order("acquire");
  await curator.says("acquired");
  expect(await locks.forceRelease(name, { reason: "stuck" })).toHaveLength(1);
  expect(await locks.mutex(name).tryAcquire()).not.toBe(null);
});

test("a node that looks like a claim but belongs to no session blocks no claim", async () => {
  const locks = open();
  const client = await TestClient.open(server.url);
  // Held, so that the node of the name stays.
  const lease = await locks.mutex(name).acquire();
  const persistentSequential = 2;
  await client.create(`${nodeOf(name)}/left-over-lock-`, persistentSequential);
  await lease.release();
  expect(await locks.mutex(name).tryAcquire()).not.toBe(null);
  await client.close();
});
