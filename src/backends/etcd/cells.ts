import type { CellChange, CellStore, StoredCell } from "../../core/backend.js";
import { cellKey, isAsOf } from "./keys.js";
import type { RequestOp } from "./messages.js";
import type { EtcdRpc } from "./rpc.js";

const NO_LEASE = "0";

/** A cell is a key, and its version the revision of its last change: no two changes of anything share one. */
export class EtcdCells implements CellStore {
  readonly #rpc: EtcdRpc;
  readonly #root: string;

  constructor(rpc: EtcdRpc, root: string) {
    this.#rpc = rpc;
    this.#root = root;
  }

  async read(name: string): Promise<StoredCell | undefined> {
    const { kvs } = await this.#rpc.range({ key: cellKey(this.#root, name) });
    const [kv] = kvs;
    return kv && { version: BigInt(kv.mod_revision), text: kv.value.toString() };
  }

  async write(name: string, { text, ifVersion, keepMs }: CellChange): Promise<bigint | undefined> {
    const key = cellKey(this.#root, name);
    const ends = text !== undefined && keepMs !== undefined;
    const lease = ends ? (await this.#rpc.grantLease(Math.ceil(keepMs / 1000))).ID : NO_LEASE;
    const change: RequestOp =
      text === undefined
        ? { request_delete_range: { key } }
        : { request_put: { key, value: Buffer.from(text), lease } };
    const compare = ifVersion === undefined ? [] : [isAsOf(key, String(ifVersion ?? 0))];
    const { succeeded, header } = await this.#rpc.txn({ compare, success: [change] });
    if (succeeded) return BigInt(header.revision);
    if (lease !== NO_LEASE) this.#rpc.revokeLease(lease).catch(() => undefined);
    return undefined;
  }
}
