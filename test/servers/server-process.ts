import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { constants, existsSync, readdirSync, readFileSync } from "node:fs";
import { access, mkdtemp, open, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";

export interface ServerOptions {
  /** For the temp folder's name and for error messages. */
  name: string;
  program: string;
  /** The program runs inside the temp folder, so the names of files in it need no path. */
  args: readonly string[];
  /** Files to write into the temp folder before the first start; a restart leaves them as they are. */
  files?: Readonly<Record<string, string>>;
  /** What has to be done in the temp folder before the first start. */
  prepare?: (folder: string) => Promise<unknown>;
  /** What ends it at once and in good order; SIGTERM if not given. */
  stopSignal?: NodeJS.Signals;
  /** How long it may take until it answers. */
  startTimeoutMs?: number;
  /** Throws for as long as the server of that process id does not answer. */
  answers: (pid: number) => Promise<unknown>;
}

const START_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 3_000;
const POLL_MS = 25;
const LOG_FILE = "output.log";
const LOG_TAIL_LINES = 20;

/*
 * Ends the server when we die, however we die: fd 3 is a pipe of which we hold the other end, and the kernel
 * closes that end even after a SIGKILL. A line on the pipe calls the watchdog off; its end without a line
 * means that we are gone. `exec` turns this shell into the server, so the child's pid is the server's pid,
 * and `$$` in the watchdog (a subshell) means that same pid. $0 is the temp folder.
 */
const WATCHED_START = `( read -r _ <&3 || { kill -9 $$; rm -rf "$0"; } ) & exec "$@" 3<&-`;

/** Our ends of the watchdogs' pipes. */
const watchdogs = new Set<Writable>();

/*
 * A worker of vitest outlives a vitest that was killed, until its current test is over. Its servers end at
 * once: we hear of the kill as the loss of the IPC channel, and play dead for the watchdogs.
 */
function abandonServers(): void {
  for (const watchdog of watchdogs) watchdog.destroy();
}

/** A server program that runs in a temp folder of its own and does not outlive this process. */
export class ServerProcess {
  #child: ChildProcess | undefined;

  private constructor(
    private readonly options: ServerOptions,
    readonly folder: string,
  ) {}

  /** Starts the program and waits until it answers. */
  static async start(options: ServerOptions): Promise<ServerProcess> {
    const server = new ServerProcess(
      options,
      await mkdtemp(join(await quickFolder(), `locktender-${options.name}-`)),
    );
    try {
      for (const [name, text] of Object.entries(options.files ?? {})) {
        await writeFile(join(server.folder, name), text);
      }
      await options.prepare?.(server.folder);
      await server.#launch();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  get running(): boolean {
    return this.#child !== undefined;
  }

  get pid(): number {
    if (this.#child?.pid === undefined) throw new Error(`${this.options.name} is not running`);
    return this.#child.pid;
  }

  /** Ends the program for good and removes its folder. */
  async stop(): Promise<void> {
    if (this.#child) {
      this.resume(); // a paused process would keep SIGTERM waiting
      await this.kill(this.options.stopSignal ?? "SIGTERM");
    }
    await rm(this.folder, { recursive: true, force: true });
  }

  /** Sends a signal that ends the program, and waits for the end. Its folder stays, for restart(). */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#child;
    if (!child) return;
    const exited = once(child, "exit");
    child.kill(signal);
    const lastResort = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(lastResort);
  }

  /** Freezes the program: its sockets stay open, and nothing answers. */
  pause(): void {
    freeze(this.pid);
  }

  resume(): void {
    process.kill(this.pid, "SIGCONT");
  }

  /** Starts the program again with the same arguments and folder, after a SIGKILL if it still runs. */
  async restart(): Promise<void> {
    await this.kill();
    await this.#launch();
  }

  async #launch(): Promise<void> {
    const log = await open(join(this.folder, LOG_FILE), "a");
    const args = ["-c", WATCHED_START, this.folder, this.options.program, ...this.options.args];
    const stdio: StdioOptions = ["ignore", log.fd, log.fd, "pipe"];
    const child = spawn("/bin/sh", args, { cwd: this.folder, stdio });
    this.#child = child;
    const watchdog = child.stdio[3] as Writable;
    watchdog.on("error", () => {}); // the watchdog may be gone before it hears that it is called off
    // Not for good: Node keeps a process running for as long as it listens for the loss of its channel.
    if (watchdogs.size === 0) process.once("disconnect", abandonServers);
    watchdogs.add(watchdog);
    child.once("exit", () => {
      this.#child = undefined;
      watchdog.end("the server has ended\n");
      watchdogs.delete(watchdog);
      if (watchdogs.size === 0) process.off("disconnect", abandonServers);
    });
    await log.close();
    await this.#untilItAnswers(child);
  }

  async #untilItAnswers(child: ChildProcess): Promise<void> {
    const timeoutMs = this.options.startTimeoutMs ?? START_TIMEOUT_MS;
    const deadline = performance.now() + timeoutMs;
    let lastError: unknown;
    while (this.#child === child && performance.now() < deadline) {
      try {
        await this.options.answers(this.pid);
        return;
      } catch (error) {
        lastError = error;
        await sleep(POLL_MS);
      }
    }
    const problem = this.#child === child ? `did not answer within ${timeoutMs} ms` : "ended at once";
    const log = await readFile(join(this.folder, LOG_FILE), "utf8");
    const tail = log.trimEnd().split("\n").slice(-LOG_TAIL_LINES).join("\n");
    const message = `${this.options.name} (${this.options.program}) ${problem}; its log ends with:\n${tail}`;
    throw new Error(message, { cause: lastError });
  }
}

/** Stops a process. On a busy machine its threads do not stop at once: one of them might still answer. */
export function freeze(pid: number): void {
  process.kill(pid, "SIGSTOP");
  const tasks = `/proc/${pid}/task`;
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (existsSync(tasks) && !readdirSync(tasks).every((task) => isStopped(`${tasks}/${task}/stat`))) {
    if (performance.now() > deadline) throw new Error(`process ${pid} does not stop`);
  }
}

function isStopped(stat: string): boolean {
  try {
    // What follows the name of the program, which may contain anything.
    return /^[TtZX]/.test(readFileSync(stat, "latin1").split(") ").at(-1) ?? "");
  } catch {
    return true; // It has ended.
  }
}

/** In memory, where there is such a thing: what a server has on its disk need not outlive a test. */
async function quickFolder(): Promise<string> {
  const memory = "/dev/shm";
  return access(memory, constants.W_OK).then(
    () => memory,
    () => tmpdir(),
  );
}

export interface Stoppable {
  stop(): Promise<void>;
}

export async function stopAll(running: readonly Stoppable[]): Promise<void> {
  await Promise.all(running.map((one) => one.stop()));
}

/** Waits for all that is starting; when one fails, the others are stopped before its error is thrown. */
export async function allOrNone<T extends Stoppable>(starting: readonly Promise<T>[]): Promise<T[]> {
  const outcomes = await Promise.allSettled(starting);
  const started = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
  const failure = outcomes.find((outcome) => outcome.status === "rejected");
  if (!failure) return started;
  await stopAll(started);
  throw failure.reason;
}
