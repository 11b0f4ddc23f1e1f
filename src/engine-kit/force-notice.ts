import type { Force } from "../core/backend.js";
import { parsed } from "./claim-metadata.js";

// What an operator said when he took a claim away. The engine keeps it as JSON, where its holder reads it.

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
