import type { ClaimRequest } from "../../core/backend.js";
import { sendingNow } from "../../core/clock.js";
import type { EngineState } from "./engine-state.js";
import { isAsOf, isStill } from "./keys.js";
import type { Long } from "./messages.js";
import type { OwnClaim } from "./own-claim.js";

/**
 * The first granted answer: a fixed or a minimal time begins, and needs a lease of its own. The claim moves there
 * only if nothing has been done to it since we looked, or a request that is delivered late would move it to a
 * lease that ends earlier. Else one has to look again.
 */
export async function granted(
  { rpc, bell }: EngineState,
  request: ClaimRequest,
  ownClaim: OwnClaim,
  changed: Long,
): Promise<boolean> {
  const { key, ticket = 0n, fixed, minHoldMs } = ownClaim;
  const sent = sendingNow();
  if (!fixed && minHoldMs === 0) {
    ownClaim.grant(sent.atMs);
    if (!ownClaim.waited) return true;
    // Since when it is held is for people to see; nobody waits for that.
    const value = ownClaim.value(request, bell);
    ownClaim.written = value;
    const success = [{ request_put: { key, value, ignore_lease: true } }] as const;
    rpc.txn({ compare: [isStill(key, ticket)], success }).catch(() => undefined);
    return true;
  }
  const lengthMs = Math.max(request.ttlMs, minHoldMs);
  const { ID: lease, TTL } = await rpc.grantLease(Math.ceil(lengthMs / 1_000));
  const value = ownClaim.value(request, bell, true);
  const { succeeded } = await rpc.txn({
    compare: [isAsOf(key, changed)],
    success: [{ request_put: { key, value, lease } }],
  });
  if (!succeeded) {
    rpc.revokeLease(lease).catch(() => undefined);
    return false;
  }
  ownClaim.grant(sent.atMs);
  ownClaim.alone = { lease, sent, lengthMs: Math.min(lengthMs, Number(TTL) * 1_000) };
  ownClaim.written = value;
  return true;
}
