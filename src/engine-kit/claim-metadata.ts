import type { Force } from "../core/backend.js";
import type { Owner } from "../core/claim.js";

// What is stored beside a claim for people to see. Others may write there, too, and it decides nothing: what cannot be
// read is shown as that of another program, and must not hide the other claims.

/** Where engines keep claims as nodes or keys. */
export interface ClaimMetadata {
  readonly owner: Owner;
  readonly note: string;
  /** Where its process hears that it was taken away. */
  readonly bell: string;
}

/** The owner of a claim that was not written by us. */
export const UNKNOWN_OWNER: Owner = { instance: "another program", host: "unknown", pid: 0 };

/** `undefined`: not written by us. */
export function readMetadata<T extends ClaimMetadata>(text: Buffer): T | undefined {
  const read = parsed(text.toString()) as Partial<T> | undefined;
  if (typeof read !== "object" || read === null || typeof read.bell !== "string") return undefined;
  return { ...read, owner: ownerIn(read.owner), note: noteIn(read.note) } as T;
}

export function ownerIn(value: unknown): Owner {
  if (typeof value !== "object" || value === null) return UNKNOWN_OWNER;
  const { service, instance, version, host, pid } = value as Partial<Record<keyof Owner, unknown>>;
  const texts = [instance, host, service ?? "", version ?? ""];
  const isOwner = texts.every((text) => typeof text === "string") && typeof pid === "number";
  return isOwner ? (value as Owner) : UNKNOWN_OWNER;
}

export function noteIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A time that another process has written down. */
export function shownMs(value: unknown, otherwise: number): number {
  return typeof value === "number" && Number.isFinite(value) ? value : otherwise;
}

/** What a text says as JSON; `undefined` if nothing. */
export function parsed(text: unknown): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

// What an operator said when taking a claim away. The engine keeps it as JSON, where its holder reads it.

/** As far as it can be read: that the claim was taken away is certain. */
export function forceIn(value: unknown): Partial<Force> {
  const { reason, by } = (value ?? {}) as { readonly reason?: unknown; readonly by?: unknown };
  return {
    ...(typeof reason === "string" ? { reason } : undefined),
    ...(typeof by === "string" ? { by } : undefined),
  };
}

/** `undefined`: not written by us. On some engines every user of the server can write there. */
export function parseForce(json: string): Force | undefined {
  const { reason, ...rest } = forceIn(parsed(json));
  return reason === undefined ? undefined : { reason, ...rest };
}

export function forceText({ reason, by }: Force): string {
  return JSON.stringify({ reason, by });
}
