import { randomUUID } from "node:crypto";
import { createLocks, type Lease, type Locks, type LocksOptions } from "locktender";
import { type RedlockOptions, redlock } from "locktender/redlock";
import { type FaultProxy, startFaultProxy } from "locktender/testing";
import { expect, onTestFinished } from "vitest";
import { lockKeys } from "#lib/backends/redlock/keys.js";
import type { Backend, ClaimRequest } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { durationMs } from "#lib/core/duration.js";
import { askRedis } from "../redis/server.js";
import { declareNew } from "./harness.js";

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export const urlOf = (ports: readonly number[]): string =>
  `redlock://${ports.map((port) => `127.0.0.1:${port}`).join(",")}`;

/** A wire to a server that breaks on request; on a port of ours, it takes the place of another one. */
export async function proxyTo(server: number, port?: number): Promise<FaultProxy> {
  const target = { host: "127.0.0.1", port: server };
  const proxy = await startFaultProxy(port === undefined ? { target } : { target, port });
  onTestFinished(() => proxy.close());
  return proxy;
}

/** What a single question of one client asks for. */
export const request: ClaimRequest = {
  name: "a",
  id: "me",
  weight: WHOLE,
  capacity: WHOLE,
  ttlMs: 5_000,
  fixed: false,
  minHoldMs: 0,
  queue: false,
  owner: { instance: "test", host: "here", pid: 1 },
  note: "",
};

/** The head of a lock that a client has held for a moment, or for so long, and holds for ever. */
export const voteOf = (id: string, agoMs = 0): string =>
  `1\n${id} 1 1 ${Date.now() - agoMs}000 0 9000000000000000 ${WHOLE} 0 0 [{},""]`;

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
  async behind(
    places: readonly number[],
    locksOptions: LocksOptions = {},
    options: RedlockOptions = {},
  ): Promise<Proxied> {
    const { proxies, url } = await this.#proxied(places);
    return { proxies, locks: this.open(locksOptions, { ...options, url }) };
  }

  async backendBehind(places: readonly number[]): Promise<{ backend: Backend; proxies: FaultProxy[] }> {
    const { proxies, url } = await this.#proxied(places);
    return { proxies, backend: this.backend({ url }) };
  }

  async #proxied(places: readonly number[]): Promise<{ proxies: FaultProxy[]; url: string }> {
    const ports = [...this.ports];
    const proxies: FaultProxy[] = [];
    for (const place of places) {
      const proxy = await proxyTo(this.ports[place] ?? 0);
      proxies.push(proxy);
      ports[place] = proxy.port;
    }
    return { proxies, url: urlOf(ports) };
  }

  /** The key of a lock on every server. */
  headOf(name: string): string {
    return lockKeys(this.prefix, name)[0];
  }

  /** Makes a server believe that a client has its vote. */
  async plant(place: number, name: string, head: string): Promise<void> {
    await askRedis(this.ports[place] ?? 0, "SET", this.headOf(name), head);
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
      const head = await askRedis(port, "GET", this.headOf(name));
      counts.push(String(head ?? "").split("\n").length - 1);
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
