import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { inject } from "vitest";
import { HOST_VARIABLE } from "../servers/global-setup.js";

export interface RunRequest {
  /** The copy of the build. */
  readonly dist: string;
  readonly file: string;
  /** Of the full names of the tests. */
  readonly pattern: string;
}

export interface Outcome {
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  /** Of the file itself, as when it cannot be loaded. */
  readonly errors: readonly string[];
}

interface Reply {
  readonly id: number;
  readonly outcome?: Outcome;
  readonly error?: string;
}

/** The parent's side of vitest-runs.mjs. */
export class VitestRuns {
  readonly #child: ChildProcess;
  readonly #asked = new Map<number, { resolve(outcome: Outcome): void; reject(error: Error): void }>();
  #lastId = 0;

  constructor() {
    this.#child = fork(fileURLToPath(new URL("./vitest-runs.mjs", import.meta.url)), {
      cwd: fileURLToPath(new URL("../..", import.meta.url)),
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      env: {
        ...process.env,
        // A bug may be one that only the matrix looks for.
        LOCKTENDER_TESTS: "",
        [HOST_VARIABLE]: inject("servers"),
      },
    });
    this.#child.on("message", ({ id, outcome, error }: Reply) => {
      const asked = this.#asked.get(id);
      this.#asked.delete(id);
      if (outcome !== undefined) asked?.resolve(outcome);
      else asked?.reject(new Error(error));
    });
    this.#child.on("exit", (code, signal) => {
      for (const { reject } of this.#asked.values())
        reject(new Error(`the process with the runs has ended: ${signal ?? code}`));
      this.#asked.clear();
    });
  }

  run(request: RunRequest): Promise<Outcome> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      this.#child.send({ id, request }, (error) => {
        if (error !== null) reject(error);
      });
    });
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    // Its processes end with it.
    this.#child.disconnect();
    await ended;
  }
}
