import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { createLocks, type Lease, type Locks, type LocksOptions } from "locktender";
import { type RedlockOptions, redlock } from "locktender/redlock";
import { type FaultProxy, startFaultProxy } from "locktender/testing";
import { expect, onTestFinished } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { durationMs } from "#lib/core/duration.js";
import { declareNew } from "../support/quorum-harness.js";

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export const urlOf = (ports: readonly number[]): string =>
  `redlock://${ports.map((port) => `127.0.0.1:${port}`).join(",")}`;

/** A quorum that no other test uses, on servers that others use, too. */
export class Quorum {
  readonly prefix = `test-${randomUUID().slice(0, 8)}`;

  constructor(
    readonly ports: readonly number[],
    readonly options: Omit<RedlockOptions, "url" | "prefix"> = {},
  ) {}

  /** One whose servers know already that they are new. */
  static async on(
    ports: readonly number[],
    options: Omit<RedlockOptions, "url" | "prefix"> = {},
  ): Promise<Quorum> {
    const quorum = new Quorum(ports, options);
    await declareNew(ports, quorum.prefix, durationMs("maxTtl", options.maxTtl ?? "1m"));
    return quorum;
  }

  backend(options: RedlockOptions = {}): Backend {
    const given = { url: urlOf(this.ports), prefix: this.prefix, fresh: true, ...this.options, ...options };
    const backend = redlock(given);
    onTestFinished(() => backend.close());
    return backend;
  }

  open(locksOptions: LocksOptions = {}, options: RedlockOptions = {}): Locks {
    const locks = createLocks(this.backend(options), locksOptions);
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    return locks;
  }

  /** A client that reaches some of the servers, by their place, only through proxies. */
  async behind(places: readonly number[], locksOptions: LocksOptions = {}): Promise<Proxied> {
    const proxies: FaultProxy[] = [];
    const ports = [...this.ports];
    for (const place of places) {
      const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port: this.ports[place] ?? 0 } });
      onTestFinished(() => proxy.close());
      proxies.push(proxy);
      ports[place] = proxy.port;
    }
    return { proxies, locks: this.open(locksOptions, { url: urlOf(ports) }) };
  }

  /** Asks until it is let in: an outage is over when the servers vote again, which may take longer than a ttl. */
  async held(name: string, locksOptions: LocksOptions): Promise<Lease> {
    const locks = this.open(locksOptions);
    const startedAt = performance.now();
    for (;;) {
      const lease = await locks
        .mutex(name)
        .tryAcquire()
        .catch(() => null);
      if (lease !== null) return lease;
      expect(performance.now() - startedAt, "let in within 10 s").toBeLessThan(10_000);
      await sleep(20);
    }
  }

  /** How many claims of a lock each server has. */
  async claims(name: string): Promise<readonly number[]> {
    const counts: number[] = [];
    for (const port of this.ports) {
      const client = new Redis(port, "127.0.0.1");
      const head = await client.get(`${this.prefix}:quorum:{${name}}`);
      counts.push((head ?? "").split("\n").length - 1);
      client.disconnect();
    }
    return counts;
  }

  async nothingLeft(name: string, withinMs: number): Promise<void> {
    await expect
      .poll(async () => (await this.claims(name)).every((count) => count === 0), { timeout: withinMs })
      .toBe(true);
  }
}

export interface Proxied {
  readonly locks: Locks;
  readonly proxies: readonly FaultProxy[];
}
