import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Program, start } from "../core/program.js";
import { declareNew } from "../engines/redlock/harness.js";
import type { SharedName } from "../engines.js";
import { shared } from "../servers/shared.js";
import { hostsOf } from "../support/hosts-of.js";

/** Somewhere to keep locks, and how a program of its own connects to it. */
export interface Place {
  readonly title: string;
  readonly url: string;
  /** An expression that makes locks; in it, `url` is the address. */
  readonly open: string;
  readonly env?: Readonly<Record<string, string>>;
}

export const PREFIX = `idle_${process.pid}`;

/** Long enough for a busy machine; etcd counts in seconds. */
const OPTIONS = { ttl: "3s" };
/** iovalkey is made of ioredis; what is promised of it is in test/clients. */
const LIBRARIES = ["ioredis", "redis"] as const;

export function byUrl(title: string, url: string, options: object = { prefix: PREFIX }): Place {
  return { title, url, open: `await connect(url, ${JSON.stringify({ ...OPTIONS, ...options })})` };
}

export function byLibrary(title: string, engine: "redis" | "redlock", url: string): Place[] {
  return LIBRARIES.map((library) => {
    const options = `{ url, library: "${library}", prefix: "${PREFIX}" }`;
    const open = `createLocks(${engine}(${options}), ${JSON.stringify(OPTIONS)})`;
    return { title: `${title}, by ${library}`, url, open };
  });
}

/** A program that has locks at that place. */
export function begin({ open, url, env = {} }: Place, source: string): Program {
  return start(
    `const url = ${JSON.stringify(url)};
     const locks = ${open};
     ${source}`,
    { env },
  );
}

/** One claim waits for another, so that all connections have been made that there can be. */
export const HANDED_OVER = `
  const mutex = locks.mutex("handed-over-" + process.pid);
  const first = await mutex.acquire();
  const second = mutex.acquire();
  await sleep(300);
  await first.release();
  await (await second).release();`;

const folder = await mkdtemp(join(tmpdir(), "locktender-idle-"));

export function removeFiles(): Promise<void> {
  return rm(folder, { recursive: true, force: true });
}

export const SQLITE = byUrl("SQLite", `sqlite:${join(folder, "locks.db")}`, {});

/** Every engine, in every topology. */
export async function everyPlace(): Promise<readonly Place[]> {
  const urlOf = async (name: SharedName) => (await shared(name)).url;
  const quorum = await urlOf("redlock");
  const ports = hostsOf(quorum).map(({ port }) => port);
  await declareNew(ports, PREFIX, 60_000);
  return [
    byUrl("memory", "memory:", {}),
    SQLITE,
    ...byLibrary("Redis", "redis", await urlOf("redis")),
    ...byLibrary("Redis behind Sentinel", "redis", await urlOf("redis-sentinel")),
    ...byLibrary("a Redis Cluster", "redis", await urlOf("redis-cluster")),
    ...byLibrary("Redlock", "redlock", quorum),
    byUrl("etcd", await urlOf("etcd")),
    byUrl("an etcd ensemble", await urlOf("etcd-ensemble")),
    byUrl("ZooKeeper", await urlOf("zookeeper")),
    byUrl("a ZooKeeper ensemble", await urlOf("zookeeper-ensemble")),
    byUrl("PostgreSQL", await urlOf("postgres")),
    byUrl("MariaDB", await urlOf("mariadb")),
  ];
}
