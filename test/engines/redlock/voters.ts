import { once } from "node:events";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Lease } from "locktender";
import { afterAll, afterEach } from "vitest";
import { askRedis, type RedisNode, type RedisServers, startRedisServers } from "../redis/server.js";

/** Five real servers to which everything happens that happens to servers. After each test all of them run. */
export class Voters {
  readonly ports: readonly number[];
  readonly #nodes: readonly RedisNode[];
  readonly #paused = new Set<RedisNode>();

  /** For the tests of one file. */
  static async start(): Promise<Voters> {
    const servers = await startRedisServers(5, { config: ["appendonly yes", "appendfsync always"] });
    afterAll(() => servers.stop());
    const voters = new Voters(servers);
    afterEach(() => voters.#mend());
    return voters;
  }

  private constructor({ nodes, ports }: RedisServers) {
    this.#nodes = nodes;
    this.ports = ports;
  }

  at(place: number): RedisNode {
    const node = this.#nodes[place];
    if (node === undefined) throw new RangeError(`there is no server ${place}`);
    return node;
  }

  /** Where a server keeps what it knows. */
  filesOf(place: number): string {
    return join(this.at(place).process.folder, "appendonlydir");
  }

  async kill(...places: number[]): Promise<void> {
    await Promise.all(places.map((place) => this.at(place).process.kill()));
  }

  async flush(...places: number[]): Promise<void> {
    for (const place of places) await askRedis(this.at(place).port, "FLUSHALL");
  }

  async restartEmpty(...places: number[]): Promise<void> {
    const restart = async (place: number) => {
      await this.at(place).process.kill();
      await rm(this.filesOf(place), { recursive: true, force: true });
      await this.at(place).process.restart();
    };
    await Promise.all(places.map(restart));
  }

  pause(...places: number[]): void {
    for (const place of places) {
      this.#paused.add(this.at(place));
      this.at(place).process.pause();
    }
  }

  resume(): void {
    for (const node of this.#paused) node.process.resume();
    this.#paused.clear();
  }

  /** Those that were ended come back without what they knew. */
  async #mend(): Promise<void> {
    this.resume();
    for (const [place, { port }] of this.#nodes.entries())
      await askRedis(port, "PING").catch(() => this.restartEmpty(place));
  }
}

export async function lossOf({ signal }: Lease): Promise<string> {
  if (!signal.aborted) await once(signal, "abort", { signal: AbortSignal.timeout(10_000) });
  return signal.reason.loss;
}
