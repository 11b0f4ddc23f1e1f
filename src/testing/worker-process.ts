import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import type { AcquireOptions } from "../core/options.js";
import type { LocksOptions } from "../locks/locks-options.js";
import type { MutexOptions } from "../locks/mutex.js";
import type { WorkerBackend } from "./harness.js";
import type { MutexAdapter } from "./mutex-adapter.js";

export interface WorkerStart extends WorkerBackend {
  readonly options: LocksOptions;
  readonly as: MutexAdapter | undefined;
}

export interface WorkerSettings {
  /** How far its wall clock is off. */
  readonly skewMs?: number;
  /** What stands in for every mutex. */
  readonly as?: MutexAdapter | undefined;
  /** What is done before it asks for a lock. */
  readonly prepare?: ((name: string) => Promise<void>) | undefined;
}

export type WorkerCall =
  | { readonly op: "start"; readonly start: WorkerStart }
  | {
      readonly op: "acquire";
      readonly name: string;
      readonly options: AcquireOptions;
      readonly mutex: MutexOptions;
    }
  | { readonly op: "tryAcquire"; readonly name: string }
  | { readonly op: "runForEver"; readonly name: string }
  | { readonly op: "beginOnce"; readonly key: string; readonly value: string }
  | { readonly op: "endOnce" }
  | { readonly op: "release"; readonly lease: number }
  | { readonly op: "look"; readonly lease: number }
  | { readonly op: "block"; readonly lease: number; readonly ms: number }
  | { readonly op: "leave" }
  | { readonly op: "exit" };

export interface WorkerReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: string;
  readonly code?: string | undefined;
}

export interface WorkerLook {
  readonly held: boolean;
  readonly aborted: boolean;
  readonly loss: string | undefined;
  readonly abortedAtNs: string | undefined;
}

export interface WorkerLease {
  readonly lease: number;
  readonly token: string;
}

/** A skewed wall clock for a whole process, set before any other code runs. */
function clockSkew(skewMs: number): string {
  const source = `const real = Date.now; const skew = ${skewMs}; Date.now = () => real() + skew;`;
  return `data:text/javascript,${encodeURIComponent(source)}`;
}

/** The parent's side of a worker. */
export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  readonly #prepare: (name: string) => Promise<void>;
  #lastId = 0;

  private constructor(child: ChildProcess, prepare: WorkerSettings["prepare"] = async () => {}) {
    this.#child = child;
    this.#prepare = prepare;
    child.on("message", (reply: WorkerReply) => {
      const call = this.#calls.get(reply.id);
      this.#calls.delete(reply.id);
      if (reply.error === undefined) call?.resolve(reply.value);
      else call?.reject(Object.assign(new Error(reply.error), { code: reply.code }));
    });
    child.on("exit", () => {
      for (const { reject } of this.#calls.values()) reject(new Error("the worker has ended"));
      this.#calls.clear();
    });
  }

  static async start(
    backend: WorkerBackend,
    options: LocksOptions,
    { skewMs = 0, as, prepare }: WorkerSettings = {},
  ): Promise<WorkerProcess> {
    const execArgv = skewMs === 0 ? [] : ["--import", clockSkew(skewMs)];
    const { scriptPath } = await import("./scripts.js");
    const script = scriptPath("./worker.js");
    const worker = new WorkerProcess(fork(script, { execArgv }), prepare);
    await worker.#call({ op: "start", start: { ...backend, options, as } });
    return worker;
  }

  async acquire(name: string, options: AcquireOptions = {}, mutex: MutexOptions = {}): Promise<WorkerLease> {
    await this.#prepare(name);
    return this.#call({ op: "acquire", name, options, mutex }) as Promise<WorkerLease>;
  }

  async tryAcquire(name: string): Promise<WorkerLease | null> {
    await this.#prepare(name);
    return this.#call({ op: "tryAcquire", name }) as Promise<WorkerLease | null>;
  }

  /** Runs a callback that never ends, under the lock. */
  async runForEver(name: string): Promise<unknown> {
    await this.#prepare(name);
    return this.#call({ op: "runForEver", name });
  }

  /** Resolves when it runs; it goes on until it is told to end. */
  beginOnce(key: string, value: string): Promise<unknown> {
    return this.#call({ op: "beginOnce", key, value });
  }

  endOnce(): Promise<unknown> {
    return this.#call({ op: "endOnce" });
  }

  release(lease: number): Promise<boolean> {
    return this.#call({ op: "release", lease }) as Promise<boolean>;
  }

  look(lease: number): Promise<WorkerLook> {
    return this.#call({ op: "look", lease }) as Promise<WorkerLook>;
  }

  /** Blocks the worker's event loop and looks before it turns again. */
  blockAndLook(lease: number, ms: number): Promise<WorkerLook> {
    return this.#call({ op: "block", lease, ms }) as Promise<WorkerLook>;
  }

  /** From here on it takes no commands, and nothing but what it has to do keeps it running. */
  async leave(): Promise<void> {
    await this.#call({ op: "leave" });
    this.#child.disconnect();
  }

  signal(signal: "SIGSTOP" | "SIGCONT" | "SIGTERM"): void {
    this.#child.kill(signal);
  }

  get exited(): Promise<{ code: number | null; signal: string | null }> {
    const { exitCode: code, signalCode: signal } = this.#child;
    if (code !== null || signal !== null) return Promise.resolve({ code, signal });
    return once(this.#child, "exit").then(([exitCode, signalCode]) => ({
      code: exitCode,
      signal: signalCode,
    }));
  }

  /** As a crash: nothing of it runs any more when this resolves. */
  async kill(): Promise<void> {
    const { exited } = this;
    this.#child.kill("SIGKILL");
    await exited;
  }

  #call(call: WorkerCall): Promise<unknown> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject });
      this.#child.send({ call, id }, (error) => {
        if (error !== null) reject(error);
      });
    });
  }
}
