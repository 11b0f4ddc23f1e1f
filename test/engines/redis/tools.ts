import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createLocks, type Locks, type LocksOptions } from "locktender";
import { type RedisOptions, redis } from "locktender/redis";
import { type FaultProxy, type FaultProxyOptions, startFaultProxy } from "locktender/testing";
import { expect, onTestFinished } from "vitest";
import { LockKeyCache } from "#lib/backends/redis/keys.js";
import { askRedis, type RedisCluster } from "./server.js";

export const LIBRARIES = ["ioredis", "redis"] as const;
export type Library = (typeof LIBRARIES)[number];

/** Locks that are closed with the test. */
export function open(options: RedisOptions, locksOptions: LocksOptions = {}): Locks {
  const locks = createLocks(redis(options), locksOptions);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** A client beside the library's, to look at the server or to disturb it. */
export function look(port: number): Redis {
  const client = new Redis(port, "127.0.0.1");
  client.on("error", () => {}); // a test may stop the server; a caller that asks then is told by the command
  onTestFinished(() => client.disconnect());
  return client;
}

/** A proxy in front of a single server. A test that runs beside others gives its own `onTestFinished`. */
export async function proxyTo(
  serverUrl: string,
  finished: typeof onTestFinished = onTestFinished,
  options: Pick<FaultProxyOptions, "trapMs"> = {},
): Promise<{ proxy: FaultProxy; url: string }> {
  const { hostname: host, port } = new URL(serverUrl);
  const proxy = await startFaultProxy({ target: { host, port: Number(port) }, ...options });
  finished(() => proxy.close());
  return { proxy, url: `redis://${proxy.host}:${proxy.port}` };
}

/** So many replicas have what was written to that server before. */
export async function replicated(port: number, replicas: number): Promise<void> {
  const client = look(port);
  await client.set("last", "1", "EX", 60);
  expect(await client.wait(replicas, 5_000)).toBe(replicas);
}

export async function queued(locks: Locks, name: string, waiters: number): Promise<void> {
  await expect
    .poll(async () => (await locks.inspect(name)).waiters.length, { timeout: 10_000, interval: 10 })
    .toBe(waiters);
}

export async function idle(locks: Locks, name: string): Promise<void> {
  const counted = async () => {
    const { holders, waiters } = await locks.inspect(name);
    return holders.length + waiters.length;
  };
  await expect.poll(counted, { timeout: 10_000, interval: 10 }).toBe(0);
}

/** A name whose keys live in the slots of that node. It asks the last one, which is up in all tests. */
export async function nameOn(
  { nodes }: RedisCluster,
  node: number,
  prefix: string,
  base: string,
): Promise<string> {
  const keyCache = new LockKeyCache(prefix);
  for (let index = 0; ; index++) {
    const name = `${base}-${index}`;
    const slot = await askRedis(nodes.at(-1)?.port ?? 0, "CLUSTER", "KEYSLOT", keyCache.of(name).head);
    if (Math.floor((Number(slot) * nodes.length) / 16_384) === node) return name;
  }
}

/** Commands as the server saw them, in its order. */
export interface Seen {
  /** Sent by clients. */
  readonly asked: string[];
  /** Executed inside scripts. */
  readonly inScripts: string[];
  /** The hashes of the scripts that were asked for. */
  readonly scripts: string[];
}

/** Writes down every command that one server executes. */
export class CommandLog {
  readonly #lines: { readonly args: readonly string[]; readonly source: string }[] = [];
  readonly #client: Redis;

  private constructor(client: Redis) {
    this.#client = client;
  }

  static async of(port: number): Promise<CommandLog> {
    const [client, watcher] = [look(port), look(port)];
    const log = new CommandLog(client);
    // What they ask when they connect must not come to the monitor in one piece with its first answer: it would take the
    // one for the other.
    await Promise.all([client.ping(), watcher.ping()]);
    const monitor = await watcher.monitor();
    monitor.on("monitor", (_time: string, args: string[], source: string) => {
      log.#lines.push({ args, source });
    });
    onTestFinished(() => monitor.disconnect());
    return log;
  }

  async during(work: () => Promise<unknown>): Promise<Seen> {
    const from = await this.#mark();
    await work();
    const until = await this.#mark();
    const lines = this.#lines.slice(from + 1, until);
    const nameOf = ({ args }: { args: readonly string[] }) => (args[0] ?? "").toLowerCase();
    const asked = lines.filter(({ source }) => source !== "lua");
    return {
      asked: asked.map(nameOf),
      inScripts: lines.filter(({ source }) => source === "lua").map(nameOf),
      scripts: asked.map(({ args }) => args[1] ?? ""),
    };
  }

  /** Where in the log we are now: a command of our own shows it. */
  async #mark(): Promise<number> {
    const text = randomUUID();
    await this.#client.echo(text);
    for (;;) {
      const at = this.#lines.findIndex(({ args }) => args[1] === text);
      if (at >= 0) return at;
      await sleep(2);
    }
  }
}
