import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const dist = process.env.LOCKTENDER_DIST ?? `${root}dist`;

/** The address of a compiled module, for an import in another process. */
export function compiled(module: string): string {
  return pathToFileURL(`${dist}/${module}`).href;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
  readonly tookMs: number;
}

export interface Program {
  readonly pid: number;
  /** Resolves when the program has printed that line. */
  printed(line: string): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  readonly ended: Promise<Ended>;
}

export interface ProgramOptions {
  readonly nodeArgs?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const LONGEST_MS = 20_000;

/**
 * Runs a small program of its own, from the same build that the tests use. `connect`, `createLocks`,
 * `memory`, `redis` and `sleep` are at hand in it. One that does not end by itself is killed: then
 * `signal` says so.
 */
export function start(source: string, options: ProgramOptions = {}): Program {
  const startedAt = performance.now();
  const text0 = `
    import { connect, createLocks } from ${JSON.stringify(compiled("index.js"))};
    import { memory } from ${JSON.stringify(compiled("backends/memory/index.js"))};
    import { redis } from ${JSON.stringify(compiled("backends/redis/index.js"))};
    import { redlock } from ${JSON.stringify(compiled("backends/redlock/index.js"))};
    import { setTimeout as sleep } from "node:timers/promises";
    ${source}`;
  const args = [...(options.nodeArgs ?? []), "--input-type=module", "--eval", text0];
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...options.env },
  });
  const lastResort = setTimeout(() => child.kill("SIGKILL"), LONGEST_MS);
  const err = text(child.stderr);
  let out = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    out += chunk;
  });
  const ended = once(child, "close").then(async ([code, signal]): Promise<Ended> => {
    clearTimeout(lastResort);
    return { code, signal, out, err: await err, tookMs: performance.now() - startedAt };
  });
  const lines = () => out.split("\n").slice(0, -1);
  return {
    pid: child.pid ?? Number.NaN,
    async printed(line) {
      while (!lines().includes(line)) {
        const over = await Promise.race([once(child.stdout, "data").then(() => undefined), ended]);
        if (over !== undefined && !lines().includes(line)) {
          throw new Error(`the program ended without "${line}":\n${over.out}\n${over.err}`);
        }
      }
    },
    kill: (signal) => child.kill(signal),
    ended,
  };
}

export function run(source: string, options: ProgramOptions = {}): Promise<Ended> {
  return start(source, options).ended;
}
