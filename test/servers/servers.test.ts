import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { askRedis, startRedisSentinel, startRedisSingle } from "../engines/redis/server.js";
import { freePort, freePorts } from "./free-port.js";
import { ensurePrograms } from "./programs.js";
import { allOrNone, ServerProcess } from "./server-process.js";
import { shared } from "./shared.js";

const SOON = { timeout: 10_000, interval: 50 };

async function startOwnRedis() {
  const redis = await startRedisSingle();
  onTestFinished(() => redis.stop());
  return redis;
}

describe("free ports", () => {
  test("ports that are asked for together all differ", async () => {
    const ports = await freePorts(100);
    expect(new Set(ports).size).toBe(100);
  });

  test("a free port can be listened on", async () => {
    const port = await freePort();
    const server = createServer().listen(port, "127.0.0.1");
    await once(server, "listening");
    server.close();
  });
});

describe("programs", () => {
  test("programs that exist are fine without any right to install", async () => {
    await ensurePrograms([{ program: "sh", package: "dash" }], { mayInstall: false });
  });

  test("a missing program is reported with the command that installs it", async () => {
    const needed = [
      { program: "sh", package: "dash" },
      { program: "no-such-program", package: "no-such-package" },
    ];
    const command = "apt-get install -y --no-install-recommends no-such-package";
    const ensured = ensurePrograms(needed, { mayInstall: false });
    await expect(ensured).rejects.toThrow(/no-such-program/);
    await expect(ensured).rejects.toThrow(command);
  });

  test("missing programs are installed by apt-get, after an update", async () => {
    const folder = await mkdtemp(join(tmpdir(), "locktender-apt-"));
    const path = process.env.PATH;
    onTestFinished(async () => {
      process.env.PATH = path;
      await rm(folder, { recursive: true });
    });
    const fakeAptGet = `#!/bin/sh
      cd "${folder}" && echo "$*" >> calls
      if [ "$1" = install ]; then cp apt-get brought-program; fi`;
    await writeFile(join(folder, "apt-get"), fakeAptGet, { mode: 0o755 });
    process.env.PATH = `${folder}:${path}`;

    await ensurePrograms([{ program: "brought-program", package: "bringer" }], { mayInstall: true });
    const calls = await readFile(join(folder, "calls"), "utf8");
    expect(calls).toBe("update\ninstall -y --no-install-recommends bringer\n");
    const useless = ensurePrograms([{ program: "no-such-program", package: "bringer" }], {
      mayInstall: true,
    });
    await expect(useless).rejects.toThrow(/even after its package was installed: no-such-program/);
  });
});

describe("a server process", () => {
  test("a paused server keeps its question waiting and answers once resumed", async () => {
    const { node } = await startOwnRedis();
    node.process.pause();
    const answer = askRedis(node.port, "PING");
    expect(await Promise.race([answer, sleep(200, "no answer yet")])).toBe("no answer yet");
    node.process.resume();
    expect(await answer).toBe("PONG");
  });

  test("a restarted server is a new process on the old port that kept nothing", async () => {
    const { node } = await startOwnRedis();
    await askRedis(node.port, "SET", "kept", "no");
    const oldPid = node.process.pid;
    await node.process.restart();
    expect(node.process.pid).not.toBe(oldPid);
    expect(await askRedis(node.port, "GET", "kept")).toBeNull();
  });

  test("a stopped server leaves neither process nor folder, even when it was paused", async () => {
    const { node } = await startOwnRedis();
    node.process.pause();
    await node.process.stop();
    expect(() => node.process.pid).toThrow(/not running/);
    await expect(askRedis(node.port, "PING")).rejects.toThrow();
    await expect(access(node.process.folder)).rejects.toThrow("ENOENT");
  });

  test("a server that cannot start fails with the end of its log", async () => {
    const start = ServerProcess.start({
      name: "misconfigured",
      program: "redis-server",
      args: ["--no-such-directive", "1"],
      answers: () => Promise.reject(new Error("no answer")),
    });
    await expect(start).rejects.toThrow(/misconfigured .* ended at once.*[\s\S]*no-such-directive/);
  });

  test("when one of several servers cannot start, the others are stopped", async () => {
    const good = startOwnRedis();
    await expect(allOrNone([good, Promise.reject(new Error("the bad one"))])).rejects.toThrow("the bad one");
    await expect(askRedis((await good).node.port, "PING")).rejects.toThrow();
  });

  test.each([
    ["is killed with SIGKILL", (owner: ChildProcess) => void owner.kill("SIGKILL")],
    ["is a worker that lost its vitest", (owner: ChildProcess) => owner.disconnect()],
  ])("a server ends, and its folder goes, when its owner %s", async (_, strike) => {
    const script = `
      import { runnerImport } from "vite";
      const { module } = await runnerImport(process.argv[1], { configFile: false });
      const { node } = await module.startRedisSingle();
      process.send({ port: node.port, folder: node.process.folder });
      setInterval(() => {}, 1000);
    `;
    const args = [
      "--input-type=module",
      "-e",
      script,
      fileURLToPath(new URL("../engines/redis/server.ts", import.meta.url)),
    ];
    const owner = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
    onTestFinished(() => void owner.kill("SIGKILL"));
    const [{ port, folder }] = (await once(owner, "message")) as [{ port: number; folder: string }];
    expect(await askRedis(port, "PING")).toBe("PONG");
    await access(folder);

    strike(owner);
    await expect.poll(() => askRedis(port, "PING").catch(String), SOON).toMatch(/closed/);
    await expect.poll(() => access(folder).catch(String), SOON).toMatch("ENOENT");
  });
});

describe("the shared servers", async () => {
  const single = await shared("redis");
  const cluster = await shared("redis-cluster");
  const ownPorts = cluster.nodes.map(({ port }) => port);

  test.skipIf(single.nodes.length === 0)("the single Redis answers, and lets tests use DEBUG", async () => {
    const { port } = new URL(single.url);
    expect(await askRedis(Number(port), "DEBUG", "SLEEP", "0")).toBe("OK");
  });

  test.skipIf(ownPorts.length === 0)("the cluster serves every slot, in thirds", async () => {
    for (const port of ownPorts) {
      const ranges = (await askRedis(port, "CLUSTER", "SLOTS")) as [number, number, [string, number]][];
      const owners = ranges.map(([first, last, master]) => ({ first, last, port: master[1] }));
      expect(owners.sort((a, b) => a.first - b.first)).toEqual([
        { first: 0, last: 5460, port: ownPorts[0] },
        { first: 5461, last: 10921, port: ownPorts[1] },
        { first: 10922, last: 16383, port: ownPorts[2] },
      ]);
    }
  });

  test.skipIf(ownPorts.length === 0)(
    "one node of the cluster answers for a key, and the others point to it",
    async () => {
      const answeredBy = new Set<number>();
      for (let i = 0; i < 30; i++) {
        const answers = await Promise.all(
          ownPorts.map((port) => askRedis(port, "GET", `no-key-${i}`).catch(String)),
        );
        const owner = ownPorts[answers.indexOf(null)] ?? Number.NaN;
        answeredBy.add(owner);
        const moved = answers.filter((answer) => answer !== null);
        expect(moved).toHaveLength(2);
        for (const answer of moved)
          expect(answer).toMatch(new RegExp(`MOVED \\d+ 127\\.0\\.0\\.1:${owner}$`));
      }
      expect(answeredBy).toEqual(new Set(ownPorts));
    },
  );

  test("the sentinels fail over to a replica, data and all, when the master is killed", async () => {
    const redis = await startRedisSentinel();
    onTestFinished(() => redis.stop());
    const mastersTold = () =>
      Promise.all(
        redis.sentinels.map(async ({ port }) => {
          const told = await askRedis(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", redis.masterName);
          return Number((told as [string, string])[1]);
        }),
      );
    const allTell = (port: number) => [port, port, port];
    expect(await mastersTold()).toEqual(allTell(redis.master.port));
    await askRedis(redis.master.port, "SET", "written", "before");
    for (const { port } of redis.replicas) {
      await expect.poll(() => askRedis(port, "GET", "written"), SOON).toBe("before");
    }

    await redis.master.process.kill();
    await expect.poll(mastersTold, SOON).not.toContain(redis.master.port);
    const [promoted = 0] = await mastersTold();
    expect(await mastersTold()).toEqual(allTell(promoted));
    expect(redis.replicas.map(({ port }) => port)).toContain(promoted);
    expect(await askRedis(promoted, "GETSET", "written", "after")).toBe("before");
  }, 60_000);
});
