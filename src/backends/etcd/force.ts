import type { Force, Gone } from "../../core/backend.js";
import { forceIn, forceText, parsed, readMetadata } from "../../engine-kit/claim-metadata.js";
import type { EtcdDriver } from "./driver.js";
import { forcedKey, forcedKeys, isStill, QueueKeys } from "./keys.js";
import type { Long } from "./messages.js";

/** How long a claim that was taken away can still learn why. */
const FORCED_KEPT_S = 60;

/**
 * Taking claims away. The process that does it writes a notice for the one that has made the claim, under a prefix
 * that the latter watches: one watch for all claims of a connection.
 */
export class Forces {
  readonly #driver: EtcdDriver;
  #listening = false;

  constructor(driver: EtcdDriver) {
    this.#driver = driver;
  }

  /** From the revision of the first claim on; nothing can have been written before it. */
  listen(revision: Long): void {
    if (this.#listening) return;
    this.#listening = true;
    const { root, bell, watcher, claims } = this.#driver;
    const range = forcedKeys(root, bell);
    watcher.watch({
      ...range,
      from: BigInt(revision),
      on: (event) => {
        if (event === undefined) this.#listening = false;
        else if (!event.deleted) {
          const id = event.kv.key.subarray(range.key.length).toString();
          claims.lost(id, readForce(event.kv.value));
        }
      },
    });
  }

  /** Why a claim of ours is no longer there. */
  async goneOf(id: string): Promise<Gone> {
    const { rpc, root, bell } = this.#driver;
    const { kvs } = await rpc.range({ key: forcedKey(root, bell, id) });
    const [notice] = kvs;
    return notice === undefined ? { state: "gone", loss: "taken" } : readForce(notice.value);
  }

  async takeAway(
    { name, id }: { readonly name: string; readonly id: string },
    force: Force,
  ): Promise<boolean> {
    const { rpc, root } = this.#driver;
    const queue = new QueueKeys(root, name);
    const claims = queue.read(await rpc.range({ ...queue.all(), keys_only: false }));
    const victim = claims.find((claim) => claim.id === id);
    if (victim === undefined) return false;
    const { key } = victim.kv;
    const { notify: bell } = readMetadata(parsed(victim.kv.value.toString()));
    const success = [{ request_delete_range: { key } }];
    if (bell === undefined) {
      return (await rpc.txn({ compare: [isStill(key, victim.ticket)], success })).succeeded;
    }
    const { ID: lease } = await rpc.grantLease(FORCED_KEPT_S);
    const value = Buffer.from(forceText(force));
    const notice = { request_put: { key: forcedKey(root, bell, id), value, lease } };
    const { succeeded } = await rpc.txn({
      compare: [isStill(key, victim.ticket)],
      success: [...success, notice],
    });
    if (!succeeded) rpc.revokeLease(lease).catch(() => undefined);
    return succeeded;
  }
}

/** Any process that may write there can write anything; it is read where an error would end the process. */
function readForce(value: Buffer): Gone {
  return { state: "gone", loss: "forced", ...forceIn(parsed(value.toString())) };
}
