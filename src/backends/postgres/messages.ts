import { randomBytes } from "node:crypto";
import type { Force } from "../../core/backend.js";
import { parsed } from "../../core/shown.js";
import { forceOf } from "../sql/replies.js";
import type { Watching } from "../sql/watching.js";

/** Where one process listens. */
export function newChannel(): string {
  return `locktender_${randomBytes(9).toString("hex")}`;
}

/** `<ticket> <id> ` and `granted`, `ask`, or JSON of why it was forced away; anything else is noise. */
export function tellClaim(watching: Watching, payload: string): void {
  const [, digits, id = "", rest = ""] = /^(\d+) (\S+) (.*)$/s.exec(payload) ?? [];
  if (digits === undefined) return;
  const ticket = BigInt(digits);
  const force = rest.startsWith("{") ? parseForce(rest) : undefined;
  if (rest === "granted") watching.tell(id, { state: "granted", ticket });
  else if (rest === "ask") watching.tell(id);
  else if (force !== undefined) watching.tell(id, { state: "gone", loss: "forced", ticket, ...force });
}

/** `undefined`: not written by our routines. Every user of the database may notify a channel. */
function parseForce(json: string): Force | undefined {
  const { reason, by } = (parsed(json) ?? {}) as { reason?: unknown; by?: unknown };
  const force = forceOf(reason, by);
  return force.reason === undefined ? undefined : { ...force, reason: force.reason };
}
