import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { WorkerBackend } from "./harness.js";
import type { Operation } from "./history.js";
import { operationsOf, readRecords, seededRandom } from "./history-records.js";
import type { HistoryJob, HistoryOrder } from "./history-worker.js";

/** What the processes of a history do, and what is done to them. */
export interface HistoryPlan {
  /** One for all processes, or one for each, by its number. */
  readonly backend: WorkerBackend | ((process: number) => WorkerBackend);
  /** How many processes run at a time; one that is killed is replaced. */
  readonly processes: number;
  readonly workersPerProcess: number;
  /** The locks that they fight for: few, so that they meet. */
  readonly names: readonly string[];
  readonly durationMs: number;
  /** How long a lock is held at most, except for the few that are held for longer than the ttl. */
  readonly holdMs: number;
  readonly ttlMs: number;
  /** On an average, how often a process is killed, and how often one is stopped for longer than the ttl. */
  readonly faults?: { readonly killEveryMs?: number; readonly stopEveryMs?: number };
  /** Runs beside the processes, which go on until it has ended, too. `look` reads what they have done so far. */
  readonly meanwhile?: (look: () => Promise<RecordedHistory>) => Promise<void>;
  /** The compiled code of another release: every second process runs that one, as in a rolling deploy. */
  readonly otherBuild?: string | undefined;
  /** The same seed makes the same choices; the scheduling of the machine remains its own. */
  readonly seed: number;
}

/** What the processes have done, and how often one was killed or stopped. */
export interface RecordedHistory {
  readonly operations: readonly Operation[];
  readonly kills: number;
  readonly stops: number;
}

const MOST_PROCESSES = 200;
const LONGEST_MS = 600_000;
const START_MS = 20_000;
/** The longest poll interval of a waiter, and some more: one that has not come back by then is lost. */
const DRAIN_MS = 10_000;

/** Lets real processes fight for locks, kills and stops some of them, and returns what they wrote down. */
export async function recordHistory(plan: HistoryPlan): Promise<RecordedHistory> {
  if (plan.processes > MOST_PROCESSES || plan.durationMs > LONGEST_MS) {
    throw new RangeError(`at most ${MOST_PROCESSES} processes for ${LONGEST_MS} ms make a history`);
  }
  const folder = await mkdtemp(join(tmpdir(), "locktender-history-"));
  const { scriptPath } = await import("./scripts.js");
  const run = new Run(plan, folder, scriptPath("./history-worker.js"));
  try {
    await run.start();
    await run.fight();
    await run.finish();
    return await run.collect();
  } finally {
    await run.end();
    await rm(folder, { recursive: true, force: true });
  }
}

class Fighter {
  readonly #child: ChildProcess;
  readonly exited: Promise<void>;
  readonly ready: Promise<unknown>;
  readonly file: string;
  /** From before the signal was sent, so that it certainly lived until then. */
  endedAtNs: bigint | undefined;
  killed = false;
  stopped = false;

  constructor(job: HistoryJob, own: string, otherBuild: string | undefined) {
    this.file = job.file;
    const script = otherBuild === undefined ? own : join(otherBuild, "testing/history-worker.js");
    // Where the module that opens the backend looks for the build.
    const env = otherBuild === undefined ? process.env : { ...process.env, LOCKTENDER_DIST: otherBuild };
    this.#child = fork(script, [JSON.stringify(job)], { execArgv: [], env });
    const ended = once(this.#child, "exit");
    this.exited = ended.then(nothing, nothing);
    this.ready = within(START_MS, Promise.race([once(this.#child, "message"), ended]));
    this.ready.catch(nothing);
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null && this.endedAtNs === undefined;
  }

  /** Whether it ended as it should: when told to, or by our hand. */
  get orderly(): boolean {
    return this.#child.exitCode === 0 || this.endedAtNs !== undefined;
  }

  kill(): void {
    this.endedAtNs = process.hrtime.bigint();
    this.#child.kill("SIGKILL");
  }

  stop(): void {
    this.stopped = true;
    this.#child.kill("SIGSTOP");
  }

  /** It stops itself at the worst moment, if that comes within this time. */
  stopBeforeGoodNews(withinMs: number): void {
    this.stopped = true;
    const untilNs = process.hrtime.bigint() + BigInt(Math.round(withinMs * 1e6));
    this.#tell({ order: "stop before good news", untilNs: untilNs.toString() });
  }

  resume(): void {
    this.stopped = false;
    this.#child.kill("SIGCONT");
  }

  askToFinish(): void {
    this.#tell({ order: "finish" });
  }

  /** It may end at this very moment; then there is no process to be told. */
  #tell(order: HistoryOrder): void {
    this.#child.send(order, nothing);
  }
}

class Run {
  readonly #plan: HistoryPlan;
  readonly #folder: string;
  readonly #script: string;
  readonly #fighters: Fighter[] = [];
  readonly #random: () => number;
  #kills = 0;
  #stops = 0;

  constructor(plan: HistoryPlan, folder: string, script: string) {
    this.#plan = plan;
    this.#script = script;
    this.#folder = folder;
    this.#random = seededRandom(plan.seed);
    process.on("exit", this.#killAll);
  }

  async start(): Promise<void> {
    const fighters = Array.from({ length: this.#plan.processes }, () => this.#enlist());
    await Promise.all(fighters.map((fighter) => fighter.ready));
    this.#assertOrderly();
  }

  async fight(): Promise<void> {
    const { durationMs, faults = {}, meanwhile } = this.#plan;
    const over = new AbortController();
    const { signal } = over;
    const look = () => this.collect();
    try {
      await Promise.all([
        Promise.all([pause(durationMs, signal), meanwhile?.(look)]).then(() => over.abort()),
        this.#everyNowAndThen(faults.killEveryMs, signal, () => this.#killOne()),
        this.#everyNowAndThen(faults.stopEveryMs, signal, () => this.#stopOne()),
      ]);
    } finally {
      over.abort();
    }
    this.#assertOrderly();
  }

  /** Each process finishes what it has begun. One that does not come back is ended, and its questions stay open. */
  async finish(): Promise<void> {
    const running = this.#running();
    for (const fighter of running) {
      fighter.resume();
      fighter.askToFinish();
    }
    const finished = Promise.all(running.map(({ exited }) => exited));
    await within(DRAIN_MS + 3 * this.#plan.ttlMs, finished).catch(nothing);
    await this.end();
    this.#assertOrderly();
  }

  async collect(): Promise<RecordedHistory> {
    const parts = await Promise.all(
      this.#fighters.map(async ({ file, endedAtNs, killed }) => {
        // One that was killed before it could begin has written nothing.
        const text = await readFile(file, "utf8").catch(() => "");
        return operationsOf(readRecords(text), { atNs: endedAtNs, killed });
      }),
    );
    return { operations: parts.flat(), kills: this.#kills, stops: this.#stops };
  }

  async end(): Promise<void> {
    this.#killAll();
    await Promise.all(this.#fighters.map(({ exited }) => exited));
    process.off("exit", this.#killAll);
  }

  /** Also when we end in the middle of it: a stopped process would not even notice that its parent is gone. */
  readonly #killAll = (): void => {
    for (const fighter of this.#running()) fighter.kill();
  };

  #enlist(): Fighter {
    const { backend, workersPerProcess: workers, names, ttlMs, holdMs, seed } = this.#plan;
    const index = this.#fighters.length;
    const job = {
      backend: typeof backend === "function" ? backend(index) : backend,
      process: index,
      workers,
      names,
      ttlMs,
      holdMs,
      seed: seed + (index + 1) * 1_000,
      file: join(this.#folder, `${index}.jsonl`),
    };
    const fighter = new Fighter(job, this.#script, index % 2 === 1 ? this.#plan.otherBuild : undefined);
    this.#fighters.push(fighter);
    return fighter;
  }

  #running(): Fighter[] {
    return this.#fighters.filter((fighter) => fighter.running);
  }

  async #everyNowAndThen(
    everyMs: number | undefined,
    over: AbortSignal,
    act: () => Promise<void>,
  ): Promise<void> {
    if (everyMs === undefined) return;
    for (;;) {
      await pause(everyMs * (0.5 + this.#random()), over);
      if (over.aborted) return;
      await act();
    }
  }

  /** A stopped one may be killed, too: it dies without having woken up. */
  async #killOne(): Promise<void> {
    const victim = this.#pick(this.#running());
    if (victim === undefined || this.#fighters.length >= MOST_PROCESSES) return;
    victim.killed = true;
    victim.kill();
    this.#kills++;
    await this.#enlist().ready;
  }

  async #stopOne(): Promise<void> {
    const victim = this.#pick(this.#running().filter(({ stopped }) => !stopped));
    if (victim === undefined) return;
    const { ttlMs } = this.#plan;
    if (this.#random() < 0.5) {
      victim.stopBeforeGoodNews(ttlMs / 2);
      await sleep(ttlMs / 2);
    }
    victim.stop();
    this.#stops++;
    await sleep(ttlMs * (1.2 + this.#random() * 0.8));
    victim.resume();
  }

  #pick(fighters: readonly Fighter[]): Fighter | undefined {
    return fighters[Math.floor(this.#random() * fighters.length)];
  }

  #assertOrderly(): void {
    const broken = this.#fighters.findIndex((fighter) => !fighter.running && !fighter.orderly);
    if (broken >= 0)
      throw new Error(`process ${broken} of the history ended by itself; see its output above`);
  }
}

async function pause(ms: number, over: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal: over }).catch(nothing);
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const done = new AbortController();
  const late = sleep(ms, undefined, { signal: done.signal }).then(() => {
    throw new Error(`a process of the history took longer than ${ms} ms`);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    done.abort();
    late.catch(nothing);
  }
}

function nothing(): void {
  // What went wrong is found by looking at how the processes ended.
}
