import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks } from "locktender";
import { startFaultProxy } from "locktender/testing";
import { zookeeper } from "locktender/zookeeper";
import { describe, expect, onTestFinished, test } from "vitest";
import { ZooKeeperCells } from "#lib/backends/zookeeper/cells.js";
import { ZooKeeperDriver } from "#lib/backends/zookeeper/driver.js";
import { readZooKeeperOptions } from "#lib/backends/zookeeper/options.js";
import { start } from "../../core/program.js";
import { shared } from "../../servers/shared.js";
import { hostsOf } from "../../support/hosts-of.js";
import { TestClient } from "./test-client.js";

const { url } = await shared("zookeeper");
const PREFIX = `cells-${process.pid}`;

/** Cells that are removed soon after they were deleted, on a connection that ends when it is told to. */
function cellsOf(prefix: string): { cells: ZooKeeperCells; end(): Promise<void> } {
  const settings = readZooKeeperOptions({ url, prefix });
  const driver = new ZooKeeperDriver(settings);
  const end = async () => {
    driver.claims.timers.close();
    await driver.sessions.close(new Set());
  };
  onTestFinished(end);
  return { cells: new ZooKeeperCells(driver, 300), end };
}

describe("cells in ZooKeeper", () => {
  test("however many write at once, whatever is there, all of them do", async () => {
    const connections = [1, 2, 3, 4].map(() => createLocks(zookeeper({ url, prefix: PREFIX })));
    onTestFinished(() => Promise.all(connections.map((locks) => locks.close())).then(() => undefined));
    const writes = Array.from({ length: 64 }, (_, at) => connections[at % 4]?.cell<number>("many").write(at));
    const versions = (await Promise.all(writes)).map((result) => result?.written && result.version);
    expect(new Set(versions).size).toBe(64);
  });

  test("what a process has left behind is tidied up by others", async () => {
    const prefix = `${PREFIX}-left`;
    const { cells: gone, end } = cellsOf(prefix);
    const names = Array.from({ length: 8 }, (_, at) => `left-${at}`);
    for (const [at, name] of names.entries()) {
      await gone.write(name, { text: "1", keepMs: 100 });
      if (at % 2 === 0) await gone.write(name, { text: undefined });
    }
    await gone.write("kept", { text: "1", keepMs: 3_600_000 });
    await end();
    const { cells } = cellsOf(prefix);
    const client = await TestClient.open(url);
    onTestFinished(() => client.close());
    const left = async () => {
      for (let round = 0; round < 50; round++) await cells.write("other", { text: undefined });
      const folders = await client.children(`/${prefix}/%cells`);
      const nodes = await Promise.all(folders.map((one) => client.children(`/${prefix}/%cells/${one}`)));
      return nodes.flat().filter((node) => node !== "other");
    };
    await expect.poll(left, { timeout: 50_000, interval: 1 }).toEqual(["kept"]);
  });

  test("scenario S13: a change that may have been carried out is never told as a conflict", async () => {
    const [target] = hostsOf(url);
    if (target === undefined) expect.unreachable();
    const proxy = await startFaultProxy({ target });
    onTestFinished(() => proxy.close());
    const folder = await mkdtemp(join(tmpdir(), "locktender-zookeeper-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const cut = join(folder, "cut");
    const cutting = proxy.cutBeforeReply((data) => data.includes("changed")).then(() => writeFile(cut, ""));
    // It stands still from the moment it has sent the change until its server has closed the connection; then it
    // sends something else before it reads, and learns that this has not reached the server.
    const { out, err } = await start(`
      import { existsSync } from "node:fs";
      import { Socket } from "node:net";
      const wait = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      const ping = Buffer.from([0, 0, 0, 8, 255, 255, 255, 254, 0, 0, 0, 11]);
      const { write } = Socket.prototype;
      const locks = await connect("zookeeper://${proxy.host}:${proxy.port}");
      const cell = locks.cell("${PREFIX}:stopped");
      const { version } = await cell.write("first");
      Socket.prototype.write = function (data, ...rest) {
        const written = write.call(this, data, ...rest);
        if (!data.includes("changed")) return written;
        Socket.prototype.write = write;
        while (!existsSync(${JSON.stringify(cut)})) wait(10);
        for (let round = 0; round < 2; round++) {
          wait(50);
          write.call(this, ping);
        }
        return written;
      };
      await cell.write("changed", { ifVersion: version }).then(
        ({ written }) => console.log("written: " + written),
        (error) => console.log(error.code),
      );
      console.log((await cell.read()).value);
      await locks.close();
    `).ended;
    await cutting;
    expect({ out, err }).toEqual({ out: "backend\nchanged\n", err: "" });
  });
});
