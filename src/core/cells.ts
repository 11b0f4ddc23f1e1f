/** A value as an engine keeps it. The version, from 1 on, grows with every change, also when a cell was gone. */
export interface StoredCell {
  readonly text: string;
  readonly version: bigint;
}

export interface CellChange {
  /** `undefined` deletes it. */
  readonly text: string | undefined;
  /** Only if it still has this version; `null`: only if there is none; `undefined`: whatever it is. */
  readonly ifVersion?: bigint | null | undefined;
  /** Forgotten after this time, by the engine's clock; without it, never. */
  readonly keepMs?: number | undefined;
}

/** For engines that can keep small values: two operations, each one atomic step. */
export interface CellStore {
  read(name: string): Promise<StoredCell | undefined>;
  /** The new version; `undefined` if it was not as expected, and nothing was changed. */
  write(name: string, change: CellChange): Promise<bigint | undefined>;
}
