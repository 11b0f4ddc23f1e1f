import type { CellStore } from "../core/backend.js";
import type { Connection } from "../core/connection.js";
import { backendError, invalidOption, LockError } from "../core/errors.js";
import { checkSignal, knownOptions } from "../core/options.js";
import { plainText } from "../core/plain-text.js";
import { delay } from "../core/timer.js";

/** A value with the version at which it was read. */
export interface Versioned<T> {
  /** What JSON has made of what was written. */
  readonly value: T;
  /** Grows with every change, also when the cell was deleted in between. */
  readonly version: bigint;
}

/** What became of a write: look at `written` first. */
export type CellWrite<T> =
  | {
      /** It was as expected, and now it is changed. */
      readonly written: true;
      /** The version that it has now. */
      readonly version: bigint;
    }
  | {
      /** It was not as expected, and nothing was changed. */
      readonly written: false;
      /** What is there; `undefined` if there is none. */
      readonly current: Versioned<T> | undefined;
    };

/** On which condition a cell is changed; without one it is changed whatever is there. */
export interface CellWriteOptions {
  /** Only if it still has this version; `null`: only if there is none. */
  readonly ifVersion?: bigint | null;
}

/** For how long `update` tries. */
export interface CellUpdateOptions {
  /** How often to try when others were faster; 20 if not given. */
  readonly attempts?: number | undefined;
  /** Ends it with the signal's own reason. */
  readonly signal?: AbortSignal | undefined;
}

const WRITE_OPTIONS = new Set<string>(["ifVersion"] satisfies (keyof CellWriteOptions)[]);
const UPDATE_OPTIONS = new Set<string>(["attempts", "signal"] satisfies (keyof CellUpdateOptions)[]);
const GREATEST_VERSION = 2n ** 63n - 1n;
const MOST_ATTEMPTS = 1_000;
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 200;

/** A small value that is changed without a lock: a writer says which version it has seen. */
export class Cell<T> {
  /** The whole name, with its scope. */
  readonly name: string;
  readonly #connection: Connection;
  readonly #store: CellStore;

  /** @internal */
  constructor(connection: Connection, name: string) {
    this.name = name;
    this.#connection = connection;
    this.#store = cellsOf(connection, name, "cell");
  }

  /**
   * The value now, and its version; `undefined` if there is none.
   *
   * @example
   * ```ts
   * const seen = await locks.cell<number>("visits").read();
   * console.log(seen?.value ?? 0);
   * ```
   */
  async read(): Promise<Versioned<T> | undefined> {
    this.#connection.assertNotClosed(this.name);
    const stored = await this.#store.read(this.name);
    return stored && { value: storedJson(stored.text, this.name) as T, version: stored.version };
  }

  /**
   * Writes the value as JSON. With `ifVersion` it is written only if no other writer was faster: look at `written`.
   *
   * @example
   * ```ts
   * const limit = locks.cell<number>("limit");
   * const seen = await limit.read();
   * const { written } = await limit.write(5, { ifVersion: seen?.version ?? null });
   * ```
   */
  write(value: T, options: CellWriteOptions = {}): Promise<CellWrite<T>> {
    return this.#change(() => jsonText(value, "value", this.name), options);
  }

  /**
   * Takes the value away. With `ifVersion` that is done only if no other writer was faster: look at `written`.
   *
   * @example
   * ```ts
   * await locks.cell("limit").delete();
   * ```
   */
  delete(options: CellWriteOptions = {}): Promise<CellWrite<T>> {
    return this.#change(() => undefined, options);
  }

  /**
   * Reads, asks `change` for the new value, and writes it if no other writer was faster; if one was, does it again
   * with what is there now. `change` may be called several times. If it returns `undefined`, all stays as it is.
   * Rejects with the code `conflict` if other writers were faster each time.
   *
   * @example
   * ```ts
   * await locks.cell<number>("visits").update((visits = 0) => visits + 1);
   * ```
   */
  async update(
    change: (value: T | undefined) => T | undefined | PromiseLike<T | undefined>,
    options: CellUpdateOptions = {},
  ): Promise<Versioned<T> | undefined> {
    const { attempts, signal } = readUpdateOptions(change, options, this.name);
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted();
      const seen = await this.read();
      const value = await change(seen?.value);
      if (value === undefined) return seen;
      const text = jsonText(value, "value", this.name);
      const version = await this.#store.write(this.name, { text, ifVersion: seen?.version ?? null });
      if (version !== undefined) return { value: JSON.parse(text) as T, version };
      if (attempt >= attempts) throw tooOften(this.name, attempts);
      await delay(Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS) * Math.random(), signal);
    }
  }

  async #change(read: () => string | undefined, options: CellWriteOptions): Promise<CellWrite<T>> {
    const ifVersion = readIfVersion(options, this.name);
    const text = read();
    this.#connection.assertNotClosed(this.name);
    // Engines have words of their own for "none" and "whatever it is": numbers that no version has.
    const possible = typeof ifVersion !== "bigint" || (ifVersion > 0n && ifVersion <= GREATEST_VERSION);
    const version = possible ? await this.#store.write(this.name, { text, ifVersion }) : undefined;
    if (version !== undefined) return { written: true, version };
    return { written: false, current: await this.read() };
  }
}

export function cellsOf({ backend }: Connection, name: string, what: string): CellStore {
  if (backend.cells !== undefined) return backend.cells;
  throw new LockError("unsupported", `${what}: ${backend.traits.engine} keeps locks, and no values.`, {
    name,
  });
}

function readIfVersion(options: CellWriteOptions, name: string): bigint | null | undefined {
  knownOptions(options, WRITE_OPTIONS, `cell "${name}"`, name);
  const { ifVersion } = options;
  // A caller that passes on the version of a cell that it did not find would overwrite what is there.
  const said = "ifVersion" in options;
  if (said && ifVersion !== null && typeof ifVersion !== "bigint") {
    throw invalidOption("ifVersion: must be the bigint of a version, or null for none.", name);
  }
  return ifVersion;
}

function readUpdateOptions(change: unknown, options: CellUpdateOptions, name: string) {
  if (typeof change !== "function")
    throw invalidOption("update: give the function that makes the new value.", name);
  knownOptions(options, UPDATE_OPTIONS, `cell "${name}"`, name);
  const { attempts = 20, signal } = options;
  if (!Number.isInteger(attempts) || attempts < 1 || attempts > MOST_ATTEMPTS) {
    throw invalidOption(`attempts: must be a whole number from 1 to ${MOST_ATTEMPTS}.`, name);
  }
  checkSignal(signal, name);
  return { attempts, signal };
}

function tooOften(name: string, attempts: number): LockError {
  return new LockError(
    "conflict",
    `other writers were faster ${attempts} times at the cell "${name}". Try later, or protect it by a lock.`,
    { name, retryable: true },
  );
}

/** Small enough for every engine. */
const MOST_BYTES = 64 * 1024;

/** What is kept of a value; a reader gets what JSON makes of it, and nothing else. */
export function jsonText(value: unknown, what: string, name: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw invalidOption(`${what}: must be a value that JSON can express: ${plainText(why)}`, name);
  }
  if (text === undefined) {
    throw invalidOption(`${what}: must be a value that JSON can express, not ${typeof value}.`, name);
  }
  const bytes = Buffer.byteLength(text);
  if (bytes <= MOST_BYTES) return text;
  throw invalidOption(
    `${what}: has ${bytes} bytes as JSON, and ${MOST_BYTES} are the most. Keep it elsewhere, and a reference here.`,
    name,
  );
}

/** What the engine has kept; others may have written there, too. */
export function storedJson(text: string, name: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw backendError(`what is stored as "${name}" is no JSON, so it was not written by Locktender.`, {
      name,
      retryable: false,
      cause,
    });
  }
}
