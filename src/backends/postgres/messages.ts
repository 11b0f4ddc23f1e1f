import { randomBytes } from "node:crypto";
import type { Force } from "../../core/backend.js";
import { parseForce } from "../../engine-kit/claim-metadata.js";
import { forceOf } from "../sql/replies.js";
import type { WaiterRegistry } from "../sql/waiter-registry.js";

/** Where one process listens. */
export function newChannel(): string {
  return `locktender_${randomBytes(9).toString("hex")}`;
}

/** `<ticket> <id> ` and `granted`, `ask`, or JSON of why it was forced away; anything else is noise. */
export function tellClaim(watching: WaiterRegistry, payload: string): void {
  const [, digits, id = "", rest = ""] = /^(\d+) (\S+) (.*)$/s.exec(payload) ?? [];
  if (digits === undefined) return;
  const ticket = BigInt(digits);
  const force = rest.startsWith("{") ? forceFrom(rest) : undefined;
  if (rest === "granted") watching.tell(id, { state: "granted", ticket });
  else if (rest === "ask") watching.tell(id);
  else if (force !== undefined) watching.tell(id, { state: "gone", loss: "forced", ticket, ...force });
}

/** `undefined`: not written by our routines. Every user of the database may notify a channel. */
function forceFrom(json: string): Force | undefined {
  const { reason, by } = parseForce(json) ?? {};
  const force = forceOf(reason, by);
  return force.reason === undefined ? undefined : { ...force, reason: force.reason };
}
