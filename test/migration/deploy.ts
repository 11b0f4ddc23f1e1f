import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";

const PROCESS = fileURLToPath(new URL("./process.mjs", import.meta.url));
const LONGEST_MS = 50_000;

/** From when until when a task of a process was in, in nanoseconds; until the process was killed, if it was. */
export interface Turn {
  readonly process: number;
  readonly from: bigint;
  readonly to: bigint;
}

export interface Running {
  readonly child: ChildProcess;
  /** Resolves when the process has printed a line that begins so. */
  printed(begin: string): Promise<void>;
  /** What it has printed, when it has ended by itself; one that fails fails the test. */
  readonly turns: Promise<Turn[]>;
  kill(): Promise<void>;
}

let started = 0;

/** Two tasks of a process take so many turns each, when `begin` is called. */
export function start(file: string, name: string, turns: number, longestWorkMs: number): Running {
  const number = started++;
  const args = [PROCESS, file, name, String(turns), String(longestWorkMs)];
  const child = spawn(process.execPath, args, { stdio: "pipe", timeout: LONGEST_MS });
  const errors = text(child.stderr);
  const lines: string[] = [];
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (more: string) => {
    const all = (rest + more).split("\n");
    rest = all.pop() ?? "";
    lines.push(...all);
  });
  let killedAt: bigint | undefined;
  const ended = once(child, "close");
  return {
    child,
    async printed(begin) {
      while (!lines.some((line) => line.startsWith(begin))) {
        if (child.exitCode !== null)
          throw new Error(`it ended before it printed "${begin}": ${await errors}`);
        await Promise.race([once(child.stdout, "data"), ended]);
      }
    },
    turns: ended.then(async ([code]) => {
      if (killedAt === undefined) expect({ code, errors: await errors }).toEqual({ code: 0, errors: "" });
      return turnsIn(lines, number, killedAt);
    }),
    async kill() {
      child.kill("SIGKILL");
      killedAt = process.hrtime.bigint();
      await ended;
    },
  };
}

export async function begin(all: readonly Running[]): Promise<void> {
  await Promise.all(all.map((one) => one.printed("ready")));
  for (const { child } of all) child.stdin?.end();
}

function turnsIn(lines: readonly string[], number: number, killedAt: bigint | undefined): Turn[] {
  const ends = new Map<string, bigint>();
  for (const line of lines) {
    const [what, from = "", to = ""] = line.split(" ");
    if (what === "out") ends.set(from, BigInt(to));
  }
  return lines.flatMap((line) => {
    const [what, from = ""] = line.split(" ");
    const to = ends.get(from) ?? killedAt;
    return what === "in" && to !== undefined ? [{ process: number, from: BigInt(from), to }] : [];
  });
}

/** The pairs of turns that were in at the same time. */
export function overlaps(turns: readonly Turn[]): [Turn, Turn][] {
  const ordered = [...turns].sort((one, other) => (one.from < other.from ? -1 : 1));
  let last = ordered[0];
  return ordered.slice(1).flatMap((turn): [Turn, Turn][] => {
    const before = last as Turn;
    if (turn.to > before.to) last = turn;
    return turn.from < before.to ? [[before, turn]] : [];
  });
}
