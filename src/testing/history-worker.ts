// A child process whose workers fight for locks and write down what happened. Started by recordHistory;
// learns its job from its argument, says "ready", and comes to an end when its parent says so.
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isLockError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import { createLocks, type Locks } from "../locks/locks.js";
import type { BackendFactory, WorkerBackend } from "./harness.js";
import { type HistoryRecord, seededRandom, writeRecord } from "./history-records.js";
import { now, Pulse, QueueWatch, toNs } from "./history-watch.js";

export interface HistoryJob {
  readonly backend: WorkerBackend;
  readonly process: number;
  readonly workers: number;
  readonly names: readonly string[];
  readonly ttlMs: number;
  readonly holdMs: number;
  readonly seed: number;
  /** Where the records go. */
  readonly file: string;
}

/** What the parent says; a time is a string on its way. */
export type HistoryOrder =
  | { readonly order: "finish" }
  | { readonly order: "stop before good news"; readonly untilNs: string };

const MOST_OPERATIONS = 10_000;
const SHORTEST_TTL_MS = 20;
const LOOK_EVERY_MS = 3;
/** A server that is away refuses at once: without a pause, a worker would only count refusals. */
const PAUSE_AFTER_ERROR_MS = 50;
/** The keeper's timer is due before one of this length that was set after the loss was seen. */
const TELLING_MS = 100;

const job = JSON.parse(process.argv[2] ?? "") as HistoryJob;
const file = openSync(job.file, "a");
let stopping = false;

function record(entry: HistoryRecord): void {
  writeSync(file, writeRecord(entry));
}

/** What a worker does next. */
interface Turn {
  readonly name: string;
  /** Undefined: only try. */
  readonly waitMs: number | undefined;
  readonly abortAfterMs: number | undefined;
  readonly ttlMs: number;
  readonly fixed: boolean;
  /** In strict order of arrival, so that it shares no claim. */
  readonly fair: boolean;
  /** Its claim may stay with the process, where the engine tells the process that others want it. */
  readonly sticky: boolean;
  readonly holdMs: number;
  /** Never release it: let its fixed time end it. */
  readonly forget: boolean;
}

function nextTurn(random: () => number): Turn {
  const { names, ttlMs, holdMs } = job;
  const way = random();
  const fixed = random() < 0.25;
  const long = random() < 0.02;
  const order = random();
  return {
    name: names[Math.floor(random() * names.length)] ?? "",
    waitMs: way < 0.2 ? undefined : way < 0.7 ? Infinity : random() * ttlMs * 2,
    abortAfterMs: way >= 0.5 && way < 0.7 ? random() * ttlMs : undefined,
    ttlMs: fixed ? Math.max(SHORTEST_TTL_MS, ttlMs * (0.3 + random() * 0.4)) : ttlMs,
    fixed,
    fair: order < 0.3,
    sticky: order >= 0.6,
    holdMs: long ? ttlMs * 1.3 : random() * holdMs,
    forget: fixed && random() < 0.08,
  };
}

class Worker {
  readonly #forgotten = new Set<Promise<void>>();

  constructor(
    readonly id: string,
    readonly locks: Locks,
    readonly queue: QueueWatch,
    readonly pulse: Pulse,
  ) {}

  async work(random: () => number): Promise<void> {
    for (let count = 0; count < MOST_OPERATIONS && !stopping; count++) {
      const id = `${this.id}#${count}`;
      const turn = nextTurn(random);
      const lease = await this.#ask(id, turn);
      if (lease === undefined) continue;
      const held = this.#hold(id, lease, turn);
      if (turn.forget) this.#forgotten.add(held);
      else await held;
    }
    await Promise.all(this.#forgotten);
  }

  async #ask(id: string, turn: Turn): Promise<Lease | undefined> {
    const { name, waitMs, abortAfterMs, ttlMs: ttl } = turn;
    const signal = abortAfterMs === undefined ? undefined : AbortSignal.timeout(Math.ceil(abortAfterMs));
    const options = { ttl, note: id, renew: !turn.fixed, ...(signal === undefined ? undefined : { signal }) };
    const { queueing, tellsHolder } = this.locks.guarantees;
    const sticky = turn.sticky && tellsHolder ? { sticky: job.ttlMs } : undefined;
    const mutex = this.locks.mutex(name, { fair: turn.fair && queueing, ...sticky });
    const limited = waitMs !== Infinity || signal !== undefined;
    const invokedAtNs = now();
    record({ kind: "invoked", id, worker: this.id, name, limited, atNs: invokedAtNs });
    const about = () => {
      const atNs = now();
      const stalled = this.pulse.stalledSince(invokedAtNs);
      return { kind: "returned", id, atNs, queued: this.queue.take(id), stalled } as const;
    };
    try {
      const lease = await (waitMs === undefined
        ? mutex.tryAcquire(options)
        : mutex.acquire({ ...options, wait: waitMs }));
      if (lease === null) record({ ...about(), outcome: "refused" });
      else {
        // Strict order counts from the call: its claim must be its own.
        const claimedAtNs = turn.fair ? undefined : this.queue.claimedAtNs(name, lease.token);
        record({ ...about(), outcome: "granted", token: lease.token, claimedAtNs });
      }
      return lease ?? undefined;
    } catch (error) {
      if (isLockError(error, "timeout")) record({ ...about(), outcome: "timeout" });
      else if (signal?.aborted && error === signal.reason) record({ ...about(), outcome: "aborted" });
      else {
        record({ ...about(), outcome: "error", message: String(error) });
        await sleep(PAUSE_AFTER_ERROR_MS);
      }
      return undefined;
    }
  }

  /**
   * Holds the lease and looks at it all the time. A look is stamped before it is taken: what `held` then
   * says is true at the stamp as well, however long the process stood still in between.
   */
  async #hold(id: string, lease: Lease, turn: Turn): Promise<void> {
    const { signal } = lease;
    let toldAtNs: bigint | undefined;
    const told = new Promise<void>((resolve) => {
      const tell = () => {
        toldAtNs = now();
        resolve();
      };
      if (signal.aborted) tell();
      else signal.addEventListener("abort", tell, { once: true });
    });
    const stepNs = toNs(job.ttlMs / 10);
    const endNs = now() + toNs(turn.holdMs);
    let lookedAtNs: bigint | undefined;
    let promisedUntilNs = 0n;
    let atNs = now();
    for (; lease.held; atNs = now()) {
      lookedAtNs = atNs;
      const untilNs = atNs + toNs(lease.remainingMs());
      // Each renewal promises more; the looks in between prove nothing that this one has not proven.
      if (untilNs > promisedUntilNs + stepNs) {
        promisedUntilNs = untilNs;
        record({ kind: "looked", id, atNs, promisedUntilNs });
      }
      if (atNs >= endNs && !turn.forget) {
        record({ kind: "released", id, atNs });
        await released(lease);
        return;
      }
      await sleep(LOOK_EVERY_MS);
    }
    await Promise.race([told, sleep(TELLING_MS)]);
    const loss = isLockError(signal.reason, "lost") ? signal.reason.loss : undefined;
    record({ kind: "lost", id, atNs: toldAtNs ?? atNs, lookedAtNs, loss, heldAgain: lease.held });
    // As `finally` and `await using` do. It comes too late, and must not touch the successor.
    await released(lease);
  }
}

/** A release that cannot be delivered is no matter here: the ttl ends the claim. */
async function released(lease: Lease): Promise<void> {
  await lease.release().catch(() => false);
}

async function main(): Promise<void> {
  const { default: open } = (await import(job.backend.module)) as { default: BackendFactory };
  const pulse = new Pulse(job.ttlMs / 3);
  const queue = new QueueWatch(pulse);
  const locks = createLocks(queue.of(await open(job.backend.args as never)), { ttl: job.ttlMs });
  process.on("message", (said: HistoryOrder) => {
    if (said.order === "finish") stopping = true;
    else queue.stopBeforeGoodNews(BigInt(said.untilNs));
  });
  process.on("disconnect", () => process.exit(1));
  process.send?.("ready");
  await Promise.all(
    Array.from({ length: job.workers }, (_, index) =>
      new Worker(`${job.process}.${index}`, locks, queue, pulse).work(seededRandom(job.seed + index)),
    ),
  );
  await locks.close();
  process.exit(0);
}

void main();
