import type { Owner } from "./claim.js";

/** What is written beside a claim for people, where engines keep claims as nodes or keys that others may write, too. */
export interface Shown {
  readonly owner: Owner;
  readonly note: string;
  /** Where its process hears that it was taken away. */
  readonly bell: string;
}

/** Who has made a claim that was not written by us. */
export const STRANGER: Owner = { instance: "another program", host: "unknown", pid: 0 };

/** `undefined`: not written by us. */
export function readShown<T extends Shown>(text: Buffer): T | undefined {
  try {
    const read = JSON.parse(text.toString()) as Partial<T>;
    return typeof read.bell === "string" && typeof read.owner === "object" ? (read as T) : undefined;
  } catch {
    return undefined;
  }
}
