import { setTimeout as sleep } from "node:timers/promises";
import type { LockEvent } from "locktender";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cellKey, LockKeyCache } from "#lib/backends/redis/keys.js";
import { askRedis, type RedisCluster, startRedisCluster } from "./server.js";
import { LIBRARIES, open, queued } from "./tools.js";

const TTL_MS = 2_000;
const SLOTS = 16_384;

let cluster: RedisCluster;
beforeAll(async () => {
  cluster = await startRedisCluster();
});
afterAll(() => cluster.stop());

/** A slot on its way from one node to another. */
class Move {
  readonly from: number;
  readonly to: number;
  readonly slot: number;

  private constructor(slot: number) {
    const index = Math.floor((slot * cluster.nodes.length) / SLOTS);
    this.slot = slot;
    this.from = cluster.nodes[index]?.port ?? 0;
    this.to = cluster.nodes[(index + 1) % cluster.nodes.length]?.port ?? 0;
  }

  static async begin(key: string): Promise<Move> {
    const move = new Move(Number(await askRedis(cluster.nodes[0]?.port ?? 0, "CLUSTER", "KEYSLOT", key)));
    const [source, target] = await move.#ids();
    await askRedis(move.to, "CLUSTER", "SETSLOT", move.slot, "IMPORTING", String(source));
    await askRedis(move.from, "CLUSTER", "SETSLOT", move.slot, "MIGRATING", String(target));
    return move;
  }

  async carry(key: string): Promise<void> {
    await askRedis(this.from, "MIGRATE", "127.0.0.1", this.to, key, 0, 1_000);
  }

  /** The new owner is told first, as is the custom. */
  async end(): Promise<void> {
    const [, target] = await this.#ids();
    const others = cluster.nodes.map(({ port }) => port).filter((port) => port !== this.to);
    for (const port of [this.to, ...others]) {
      await askRedis(port, "CLUSTER", "SETSLOT", this.slot, "NODE", String(target));
    }
  }

  #ids(): Promise<unknown[]> {
    return Promise.all([this.from, this.to].map((port) => askRedis(port, "CLUSTER", "MYID")));
  }
}

describe.each(LIBRARIES)("while a cluster moves a slot, by %s", (library) => {
  const setUp = (test: string) => {
    const events: LockEvent[] = [];
    const options = { url: cluster.url, library } as const;
    // Each has a slot of its own.
    const name = `${test}-${library}`;
    const locks = open(options, { ttl: TTL_MS, onEvent: (event) => events.push(event) });
    const { head } = new LockKeyCache("locktender").of(name);
    return { locks, others: open(options, { ttl: TTL_MS }), events, name, head };
  };

  test("an uncontended lock is kept, given back and taken, before and after its key is moved", async () => {
    const { locks, others, events, name, head } = setUp("moved");
    const kept = await locks.mutex(name).acquire();
    const move = await Move.begin(head);
    await sleep(TTL_MS + 500);
    expect(kept.held, "renewed where it is").toBe(true);
    expect(await others.mutex(name).tryAcquire()).toBeNull();
    expect((await others.inspect(name)).holders).toHaveLength(1);
    await move.carry(head);
    await sleep(TTL_MS + 500);
    expect(kept.held, "renewed where it went").toBe(true);
    expect(await kept.release()).toBe(true);
    const next = await others.mutex(name).acquire();
    expect(next.token).toBeGreaterThan(kept.token);
    await move.end();
    expect(await next.release()).toBe(true);
    expect(await locks.mutex(name).run((lease) => lease.token)).toBeGreaterThan(next.token);
    expect(events.filter(({ type }) => type !== "acquired" && type !== "released")).toEqual([]);
  });

  test("a name of which there was nothing yet is taken and given back", async () => {
    const { locks, name, head } = setUp("new");
    const move = await Move.begin(head);
    expect(await locks.mutex(name).run({ minHold: 20 }, (lease) => lease.held)).toBe(true);
    const fresh = await locks.mutex(name).acquire();
    expect(await fresh.release()).toBe(true);
    await move.end();
    expect(await locks.mutex(name).run((lease) => lease.token)).toBeGreaterThan(fresh.token);
  });

  test("a queue is kept and served where all of it is", async () => {
    const { locks, others, events, name, head } = setUp("queue");
    const lease = await locks.mutex(name).acquire();
    const waits = [1, 2].map(() => others.mutex(name).acquire({ wait: "20s", renew: false }));
    await queued(locks, name, 2);
    const move = await Move.begin(head);
    await sleep(TTL_MS + 500);
    expect(lease.held, "renewed where it is").toBe(true);
    expect(await lease.release()).toBe(true);
    const first = await waits[0];
    for (const key of [head, `${head}:claims`, `${head}:queue`]) await move.carry(key);
    expect(await first?.release()).toBe(true);
    expect((await waits[1])?.token).toBeGreaterThan(first?.token ?? 0n);
    await move.end();
    expect(events.filter(({ type }) => type === "lost" || type === "queue-position-lost")).toEqual([]);
  });

  test("what needs more than that is an error that may pass, and no second holder is let in", async () => {
    const { locks, others, name, head } = setUp("more");
    const lease = await locks.mutex(name).acquire();
    const move = await Move.begin(head);
    const refused = others.mutex(name).acquire({ wait: 500 });
    await expect(refused).rejects.toMatchObject({ code: "backend", retryable: true });
    const forced = locks.forceRelease(name, { reason: "test" });
    await expect(forced).rejects.toMatchObject({ code: "backend", retryable: true });
    expect(lease.held).toBe(true);
    const waiting = others.mutex(name).acquire({ wait: "20s" });
    await sleep(300);
    await move.carry(head);
    await move.end();
    await queued(locks, name, 1);
    expect(await lease.release()).toBe(true);
    expect((await waiting).token).toBeGreaterThan(lease.token);
  });

  test("a cell is made, changed, read and deleted, before and after its key is moved", async () => {
    const { locks, others, name, head } = setUp("cell");
    const [cell, other] = [locks.cell<number>(name), others.cell<number>(name)];
    const made = await cell.write(1);
    const move = await Move.begin(head);
    expect((await other.update((value) => (value ?? 0) + 1))?.value).toBe(2);
    await move.carry(cellKey("locktender", name));
    expect((await cell.update((value) => (value ?? 0) + 1))?.value).toBe(3);
    expect((await other.delete()).written).toBe(true);
    const again = await cell.write(4, { ifVersion: null });
    expect(made.written && again.written && again.version > made.version).toBe(true);
    await move.end();
    expect((await other.read())?.value).toBe(4);
  });
});
