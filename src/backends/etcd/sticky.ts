import { startTimer, stopTimer } from "../../core/timer.js";
import { saysWanted, withWanted } from "../session-queue/claims.js";
import type { EtcdClaim } from "./claim.js";
import type { EtcdDriver } from "./driver.js";
import { isAsOf, type ListedKey, readClaimKey } from "./keys.js";
import type { KeyValue } from "./messages.js";
import type { EtcdRpc } from "./rpc.js";

// A sticky claim may stay with its process, as long as no other process wants the lock. Its process watches all keys of
// the name: a claim that comes behind it is a new key, and a try that is refused writes to the key of the sticky claim.

/** A grant waits for so long until its watch stands; without the watch the claim does not stay. */
const STANDS_WITHIN_MS = 1_000;
const MOST_ATTEMPTS = 3;

/** See `QueueDriver`. It watches from the ticket on, so nothing is missed before it stands, or while the stream breaks. */
export async function listen(
  driver: EtcdDriver,
  claim: EtcdClaim,
  onWanted: () => void,
): Promise<(() => void) | undefined> {
  const { queue, ticket = 0n } = claim;
  let timer: NodeJS.Timeout | undefined;
  let stop = () => {};
  const stands = await new Promise<boolean>((resolve) => {
    timer = startTimer(() => resolve(false), STANDS_WITHIN_MS);
    stop = driver.watcher.watch({
      ...queue.range,
      from: ticket + 1n,
      stands: () => resolve(true),
      on: (event) => {
        // What it has missed may have been another claim.
        if (event === undefined || (!event.deleted && isWantedBy(driver, claim, event.kv))) onWanted();
      },
    });
  });
  stopTimer(timer);
  if (stands) return stop;
  stop();
  return undefined;
}

/** What its own process writes to the key of the claim wants nothing of it. */
function isWantedBy({ root }: EtcdDriver, { key }: EtcdClaim, kv: KeyValue): boolean {
  return kv.key.equals(key) ? saysWanted(kv.value) : readClaimKey(root, kv) !== undefined;
}

/** Unless it was told already, or its claim changes at the same time, again and again. */
export async function tellWanted(rpc: EtcdRpc, { kv: { key } }: ListedKey): Promise<void> {
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const [kv] = (await rpc.range({ key })).kvs;
    const value = kv && withWanted(kv.value);
    if (kv === undefined || value === undefined) return;
    const success = [{ request_put: { key, value, ignore_lease: true } }] as const;
    if ((await rpc.txn({ compare: [isAsOf(key, kv.mod_revision)], success })).succeeded) return;
  }
}
