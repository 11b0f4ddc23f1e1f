import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { promisify } from "node:util";
import { describe, expect, test, vi } from "vitest";
import { shared } from "../servers/shared.js";
import { ROOT } from "./blocks.js";

const run = promisify(execFile);
const FOLDER = `${ROOT}examples/`;

/** A program that ends with another code than 0 rejects. */
const output = async (program: string, ...args: string[]): Promise<string[]> =>
  (await run(process.execPath, [FOLDER + program, ...args], { timeout: 40_000 })).stdout.trim().split("\n");

interface Running {
  readonly child: ChildProcess;
  readonly exited: Promise<unknown[]>;
  /** Resolves when the program has printed that. */
  printed(text: string): Promise<string>;
}

function start(program: string): Running {
  const child = spawn(process.execPath, [FOLDER + program], { stdio: ["ignore", "pipe", "inherit"] });
  let seen = "";
  child.stdout.on("data", (chunk) => {
    seen += String(chunk);
  });
  return {
    child,
    exited: once(child, "exit"),
    async printed(text) {
      await vi.waitFor(() => expect(seen).toContain(text), { timeout: 20_000 });
      return seen;
    },
  };
}

describe.concurrent("npm start", () => {
  test("four processes take turns, one is killed, one is overtaken, and all that it claims was seen", async () => {
    const lines = await output("take-turns/main.mjs");
    const log = lines.join("\n");
    expect(lines.at(-1)).toBe("All of it held.");
    // The next holder is the process that was back in the queue first.
    expect(log).toMatch(
      /Anna is killed in the middle of its work \(SIGKILL\)\n.*\w+ is in, \d+ ms after the kill/,
    );
    expect(log).toMatch(
      /Cleo is stopped in the middle of its work \(SIGSTOP\)\n.*\w+ is in, \d+ ms after the stop/,
    );
    expect(log).toMatch(/Cleo wants to write another order \d+: refused, its token is too old/);
    expect(log).toContain('Cleo is told by lease.signal: "paused"');
    const facts = lines.slice(lines.indexOf("What was seen:") + 1, -2);
    expect(facts).toHaveLength(9);
    expect(facts.filter((fact) => !fact.startsWith("  yes  "))).toEqual([]);
    // Without a terminal there is nothing to redraw.
    expect(log).not.toContain("\x1b");
  });

  test("Ctrl-C ends it, and the processes that it started", async () => {
    const { child, exited, printed } = start("take-turns/main.mjs");
    const text = await printed("writes order 1");
    const [, processes = ""] = /^The processes are (.*)$/m.exec(text) ?? [];
    const pids = (processes.match(/\d+/g) ?? []).map(Number);
    expect(pids.map((pid) => process.kill(pid, 0))).toEqual([true, true, true, true]);
    child.kill("SIGINT");
    expect(await exited).toEqual([130, null]);
    await printed("Ended by SIGINT. All processes of this example have ended.");
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
  });
});

describe.concurrent("the short examples", () => {
  test("each of them is run here", () => {
    const programs = readdirSync(FOLDER).filter((file) => file.endsWith(".mjs"));
    expect(programs).toEqual(["cron-once.mjs", "fenced-write.mjs", "graceful-shutdown.mjs", "observe.mjs"]);
  });

  test.each(["sqlite", "redis"])("cron-once: of five servers one runs the job, on %s", async (engine) => {
    const lines = await output("cron-once.mjs", ...(engine === "redis" ? [(await shared("redis")).url] : []));
    expect(lines.at(-1)).toBe("The job ran 1 time(s).");
    expect(lines.filter((line) => line.includes("leaves it to"))).toHaveLength(4);
  });

  test("fenced-write: a late write is refused by its token", async () => {
    expect(await output("fenced-write.mjs")).toEqual([
      "the holder writes: accepted",
      "the late one writes: refused (held: false)",
    ]);
  });

  test("observe: events come in order, and a loss says who forced it and why", async () => {
    const lines = await output("observe.mjs");
    expect(lines.slice(0, 2)).toEqual(["acquired orders:42", "released orders:42"]);
    expect(lines).toContain('LOST orders:42: forced by ann, who says "the example ends"');
    expect(lines.at(-1)).toBe("orders waited 3 times");
  });

  test("graceful-shutdown: SIGTERM lets it finish its work, and then ends it", async () => {
    const { child, exited, printed } = start("graceful-shutdown.mjs");
    await printed("payment 1 begins");
    child.kill("SIGTERM");
    expect(await exited).toEqual([null, "SIGTERM"]);
    expect(await printed("payment 1 is done")).toMatch(/no new payment: we are going down\n$/);
  });
});
