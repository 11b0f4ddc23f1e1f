import { setTimeout as sleep } from "node:timers/promises";
import type { WorkerBackend } from "#lib/testing/index.js";
import {
  askRedis,
  type RedisNode,
  type RedisSentinel,
  type RedisSentinelOptions,
  startRedisSentinel,
} from "../engines/redis/server.js";
import type { Stoppable } from "../servers/server-process.js";
import { until } from "./until.js";

/** A primary with two replicas behind three sentinels, through several failovers. */
export class SentinelServers implements Stoppable {
  readonly #redis: RedisSentinel;
  readonly #nodes: readonly RedisNode[];

  private constructor(redis: RedisSentinel) {
    this.#redis = redis;
    this.#nodes = [redis.master, ...redis.replicas];
  }

  static async start(options: RedisSentinelOptions = {}): Promise<SentinelServers> {
    return new SentinelServers(await startRedisSentinel(options));
  }

  backend(options: object = {}): WorkerBackend {
    return {
      module: new URL("../engines/redis/worker-backend.mjs", import.meta.url).href,
      args: { url: this.#redis.url, ...options },
    };
  }

  async version(): Promise<string> {
    const info = String(await askRedis(this.#redis.master.port, "INFO", "server"));
    const [, valkey] = /valkey_version:(\S+)/.exec(info) ?? [];
    const [, redis] = /redis_version:(\S+)/.exec(info) ?? [];
    return valkey === undefined ? `Redis ${redis}` : `Valkey ${valkey}`;
  }

  /** The one that all sentinels name; none while they disagree. */
  async primary(): Promise<RedisNode | undefined> {
    const told = await Promise.all(
      this.#redis.sentinels.map(async ({ port }) => {
        const address = await askRedis(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", this.#redis.masterName);
        return Number((address as [string, string])[1]);
      }),
    );
    return this.#nodes.find(({ port }) => told.every((one) => one === port));
  }

  async requirePrimary(): Promise<RedisNode> {
    await until("the sentinels agree", async () => (await this.primary()) !== undefined);
    const primary = await this.primary();
    if (primary === undefined) throw new Error("the sentinels do not agree");
    return primary;
  }

  async replicas(): Promise<RedisNode[]> {
    const primary = await this.requirePrimary();
    return this.#nodes.filter((node) => node !== primary);
  }

  /** Makes a server that was killed a replica of the new primary, and waits until both replicas have its data. */
  async repair(): Promise<void> {
    const primary = await this.requirePrimary();
    for (const node of await this.replicas()) {
      if (!node.process.running) await node.process.restart();
      // The sentinels do the same, but only after 8 s.
      await askRedis(node.port, "REPLICAOF", "127.0.0.1", primary.port);
    }
    const both = /state=online[\s\S]*state=online/;
    const online = async () => both.test(String(await askRedis(primary.port, "INFO", "replication")));
    await until("both replicas follow", online);
    const known = async () =>
      (await Promise.all(this.#redis.sentinels.map(({ port }) => askRedis(port, "INFO", "sentinel")))).every(
        (info) => String(info).includes("status=ok,") && String(info).includes("slaves=2"),
      );
    await until("the sentinels are content", known);
  }

  /** The primary is killed while what it has written for this time has reached no replica. */
  async failOverLossily(holdBackMs: number): Promise<void> {
    const primary = await this.requirePrimary();
    const replicas = await this.replicas();
    for (const replica of replicas) replica.process.pause();
    // Their connections, too: what is written now is in no socket's buffer.
    await askRedis(primary.port, "CLIENT", "KILL", "TYPE", "replica");
    await sleep(holdBackMs);
    await primary.process.kill();
    for (const replica of replicas) replica.process.resume();
    await this.failedOverFrom(primary);
  }

  /** Until all sentinels name another primary than that one. */
  async failedOverFrom(old: RedisNode): Promise<void> {
    const another = async () => {
      const primary = await this.primary();
      return primary !== undefined && primary !== old;
    };
    await until("the sentinels have failed over", another);
  }

  /** Until it is a replica of another. */
  async demoted(old: RedisNode): Promise<void> {
    const role = async () => ((await askRedis(old.port, "ROLE")) as [string])[0];
    await until("the old primary is demoted", async () => (await role()) === "slave");
  }

  stop(): Promise<void> {
    return this.#redis.stop();
  }
}
