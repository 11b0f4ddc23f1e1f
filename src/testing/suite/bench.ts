import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Backend, ClaimRequest } from "../../core/backend.js";
import { WHOLE } from "../../core/claim.js";
import { isOutage } from "../../core/errors.js";
import { startTimer } from "../../core/timer.js";
import { createLocks, type Locks } from "../../locks/locks.js";
import type { LocksOptions } from "../../locks/locks-options.js";
import { asOne, type FaultProxy, startFaultProxy } from "../faults.js";
import type { Harness } from "../harness.js";
import { disguised, type MutexAdapter, takeAllButOne } from "../mutex-adapter.js";
import { WorkerProcess } from "../worker-process.js";

/** What a case cannot run without. */
export type Need =
  | "processes"
  | "network"
  | "wipe"
  | "queue"
  | "sticky"
  | "cells"
  | "kinds"
  | "disguises"
  | "expiry"
  | "leftovers";

/** One promise, as a test. */
export interface Case {
  readonly name: string;
  readonly needs?: readonly Need[];
  /** Why it is not promised of permits, though they are as good as a mutex otherwise. */
  readonly notOfPermits?: string;
  /** Spends its time waiting, and touches nothing that others see: it may run beside others that do so. */
  readonly waits?: true;
  run(bench: Bench): Promise<void>;
}

/** Short enough that waiting for it is cheap, long enough that a busy machine does not lose leases by it. */
export const TTL_MS = 1_000;
/** What a test allows a busy machine on top of a promise. */
export const SLACK_MS = 800;

/** How it is told that a holder's time was up: a busy machine may have stopped this process just then. */
export const RAN_OUT = /^(expired|paused)$/;

let lastName = 0;

/** The connections, processes and proxies of one case; all of them are ended with it. */
export class Bench {
  readonly harness: Harness;
  readonly #tidy: (() => Promise<unknown>)[] = [];
  readonly #as: MutexAdapter | undefined;
  #drainer: Locks | undefined;
  readonly #drained = new Map<string, Promise<void>>();

  /** `as`: what stands in for every mutex. */
  constructor(harness: Harness, as?: MutexAdapter) {
    this.harness = harness;
    this.#as = as;
  }

  /** A name that no other case uses. */
  name(): string {
    return `case:${process.pid}:${Date.now().toString(36)}:${++lastName}`;
  }

  connect(options: LocksOptions = {}, wrap: (backend: Backend) => Backend = (backend) => backend): Locks {
    return this.#track(createLocks(wrap(this.harness.open()), options));
  }

  /** Connected already: for what is about to be timed. */
  async opened(...args: Parameters<Bench["connect"]>): Promise<Locks> {
    const locks = this.connect(...args);
    await locks.inspect(this.name());
    return locks;
  }

  #drain(name: string): Promise<void> {
    if (this.#drainer === undefined) {
      const drainer = createLocks(this.harness.open());
      this.#drainer = drainer;
      this.#tidy.push(() => drainer.close({ drain: 0, abort: 0 }));
    }
    const drained = this.#drained.get(name) ?? takeAllButOne(this.#drainer, name);
    this.#drained.set(name, drained);
    return drained;
  }

  backend(backend = this.harness.open()): Backend {
    this.#tidy.push(() => backend.close());
    return backend;
  }

  /** For locks whose waiters each have a claim of their own, where the engine can promise that. */
  get strict(): LocksOptions {
    return this.harness.queue === undefined ? { fair: true } : {};
  }

  async worker(options: LocksOptions = {}, extra: { skewMs?: number } = {}): Promise<WorkerProcess> {
    const { processes } = this.harness;
    assert("module" in processes);
    const as = this.#as;
    // It may be killed, and what it drained would be free again.
    const prepare = as === "last permit" ? (name: string) => this.#drain(name) : undefined;
    const worker = await WorkerProcess.start(processes, options, { ...extra, as, prepare });
    this.#tidy.push(() => worker.kill());
    return worker;
  }

  /** Locks behind a proxy of their own. */
  async proxied(options: LocksOptions = {}): Promise<{ locks: Locks; proxy: FaultProxy }> {
    const { backend, proxy } = await this.proxiedBackend();
    return { locks: this.#track(createLocks(backend, options)), proxy };
  }

  /** Not closed with the case by itself: `backend()` does that. */
  async proxiedBackend(): Promise<{ backend: Backend; proxy: FaultProxy }> {
    const { network } = this.harness;
    assert("target" in network);
    const targets = [network.target, ...(network.others ?? [])];
    const proxies = await Promise.all(targets.map((target) => startFaultProxy({ target })));
    for (const proxy of proxies) this.#tidy.push(() => proxy.close());
    const [first, ...others] = proxies;
    assert(first !== undefined);
    return { backend: network.open(first, others), proxy: asOne(proxies) };
  }

  async wipe(): Promise<void> {
    const { wipe } = this.harness;
    assert(typeof wipe === "function");
    await wipe();
  }

  async end(): Promise<void> {
    for (const tidy of this.#tidy.reverse()) await tidy();
  }

  #track(locks: Locks): Locks {
    this.#tidy.push(() => locks.close({ drain: 0, abort: 0 }));
    return this.#as === undefined ? locks : disguised(locks, this.#as, (name) => this.#drain(name));
  }
}

/** A claim of a whole lock, as a mutex makes it. */
export function claimOf(name: string, ttlMs: number, queue = false): ClaimRequest {
  const owner = { instance: "suite", host: "here", pid: process.pid };
  const shape = { weight: WHOLE, capacity: WHOLE, fixed: false, minHoldMs: 0 };
  return { name, id: randomUUID(), ttlMs, queue, ...shape, owner, note: "" };
}

/** Passes everything on, for a case that changes or counts some of it. */
export function passing(backend: Backend): Backend {
  return {
    traits: backend.traits,
    claim: (request) => backend.claim(request),
    renew: (claims) => backend.renew(claims),
    release: (claim, ending) => backend.release(claim, ending),
    list: (query) => backend.list(query),
    watch: (claim, notify) => backend.watch(claim, notify),
    close: () => backend.close(),
  };
}

/** How many requests of each kind an engine was sent. */
export class Requests {
  claims = 0;
  releases = 0;

  readonly of = (backend: Backend): Backend => ({
    ...passing(backend),
    claim: (request) => {
      this.claims++;
      return backend.claim(request);
    },
    release: (claim, ending) => {
      this.releases++;
      return backend.release(claim, ending);
    },
  });
}

/** An engine whose notifications are all lost, though it is listened to. */
export function withoutNotifications(backend: Backend): Backend {
  return { ...passing(backend), watch: (claim) => backend.watch(claim, () => {}) };
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => startTimer(resolve, ms));
}

/** Waits until it is so; the promise itself says how long that may take. */
export async function eventually(
  what: string | (() => string),
  withinMs: number,
  check: () => Promise<boolean> | boolean,
): Promise<void> {
  const until = performance.now() + withinMs;
  for (;;) {
    try {
      if (await check()) return;
    } catch (error) {
      // A busy engine may fail to answer once: what counts is what it says in the end.
      if (!isOutage(error) || performance.now() > until) throw error;
    }
    assert(
      performance.now() < until,
      `not within ${withinMs} ms: ${typeof what === "string" ? what : what()}`,
    );
    await sleep(5);
  }
}

/** How many hold and wait. */
export async function count(locks: Locks, name: string): Promise<{ holders: number; waiters: number }> {
  const { holders, waiters } = await locks.inspect(name);
  return { holders: holders.length, waiters: waiters.length };
}

export async function holds(locks: Locks, name: string): Promise<void> {
  await eventually(`${name} is held`, 10_000, async () => (await count(locks, name)).holders === 1);
}

/** Where no waiter can be seen: a claim that was sent before this waits by the end of it. */
const ASKED_MS = 200;

export async function queued(locks: Locks, name: string, waiters: number): Promise<void> {
  if (!locks.guarantees.queueing) return sleep(ASKED_MS);
  let seen = { holders: 0, waiters: -1 };
  // On a busy machine many take long to come: as long as more and more wait, nothing is wrong.
  while (seen.waiters !== waiters) {
    const before = seen.waiters;
    await eventually(
      () => `${waiters} wait for ${name}, but ${seen.holders} hold it and ${seen.waiters} wait`,
      10_000,
      async () => {
        seen = await count(locks, name);
        return seen.waiters === waiters || seen.waiters > before;
      },
    );
  }
}
