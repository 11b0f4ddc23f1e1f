import type { Backend, ResourceRecord } from "../../core/backend.js";
import { installed } from "../../engine-kit/client-library.js";
import { parsed, readMetadata, shownMs } from "../../engine-kit/replies.js";
import { SessionBackend } from "../session-queue/backend.js";
import { claimRecord, resourceRecord } from "../session-queue/claims.js";
import { EtcdCells } from "./cells.js";
import { takeAway } from "./claim.js";
import { EtcdDriver } from "./driver.js";
import {
  byTicket,
  encodeName,
  type KeyRange,
  keysUnder,
  type ListedKey,
  QueueKeys,
  readClaimKey,
} from "./keys.js";
import type { LeaseRest, Long } from "./messages.js";
import { type EtcdOptions, readEtcdOptions } from "./options.js";
import type { EtcdRpc } from "./rpc.js";

export type { EtcdOptions } from "./options.js";

const CAVEATS = [
  "Times to live are whole seconds, and at least one and a half election timeouts of the servers.",
  "A new leader extends all leases, so after an election a dead holder may keep its lock for longer than its ttl.",
];

/**
 * Locks on etcd, for `createLocks`, in the layout of its own clients. Short ttls are raised to the shortest lease that the
 * servers allow.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { etcd } from "locktender/etcd";
 *
 * const locks = createLocks(etcd({ url: "etcd://127.0.0.1:2379" }));
 * ```
 */
export function etcd(options: EtcdOptions): Backend {
  const settings = readEtcdOptions(options);
  const driver = new EtcdDriver(settings);
  const { rpc, root } = driver;
  return new SessionBackend(driver, {
    engine: "etcd",
    caveats: CAVEATS,
    tls: settings.tls,
    client: () => installed("@grpc/grpc-js"),
    cells: new EtcdCells(rpc, root),
    record: (name, limit) => readRecord(rpc, root, name, limit),
    records: (prefix) => readRecords(rpc, root, prefix),
    takeAway: (claim, force) => takeAway(driver, claim, force),
  });
}

const PAGE = 1_000;

async function readRecord(
  rpc: EtcdRpc,
  root: string,
  name: string,
  limit?: number,
): Promise<ResourceRecord | undefined> {
  const queue = new QueueKeys(root, name);
  const request = { ...queue.all(), keys_only: false, ...(limit === undefined ? undefined : { limit }) };
  const claims = queue.read(await rpc.range(request));
  return recordOf(claims, await remainingByLease(rpc, claims));
}

/** Every name that begins so, page by page. A name's claims stand together, so they may span two pages. */
async function* readRecords(
  rpc: EtcdRpc,
  root: string,
  prefix: string,
): AsyncIterable<ResourceRecord | undefined> {
  const { key, range_end } = keysUnder(`${root}${encodeName(prefix)}`);
  let range: KeyRange = { key, range_end };
  let open: ListedKey[] = [];
  // Of all pages: the last name of a page may go on in the next one, and is shown with that.
  const remaining = new Map<Long, number>();
  for (;;) {
    const { kvs, more } = await rpc.range({ ...range, limit: PAGE });
    const claims = kvs.flatMap((kv) => {
      const claim = readClaimKey(root, kv);
      // A key without a lease is no claim.
      return claim === undefined || kv.lease === "0" || !claim.name.startsWith(prefix) ? [] : [claim];
    });
    for (const [lease, restMs] of await remainingByLease(rpc, claims)) remaining.set(lease, restMs);
    for (const claim of claims) {
      if (open[0]?.name !== claim.name) {
        yield recordOf(open.sort(byTicket), remaining);
        open = [];
      }
      open.push(claim);
    }
    const last = kvs.at(-1);
    if (!more || last === undefined) {
      yield recordOf(open.sort(byTicket), remaining);
      return;
    }
    range = { key: Buffer.concat([last.key, Buffer.from([0])]), range_end };
  }
}

function recordOf(
  listed: readonly ListedKey[],
  remaining: ReadonlyMap<Long, number>,
): ResourceRecord | undefined {
  const claims = listed.map(({ name, id, ticket, weight, kv }) => {
    const value = readMetadata(parsed(kv.value.toString()));
    const ageMs = Date.now() - shownMs(value.granted ?? value.came, Date.now());
    const remainingMs = remaining.get(kv.lease) ?? 0;
    return claimRecord({ name, id, ticket, weight, ageMs, remainingMs }, value);
  });
  return resourceRecord(listed, claims);
}

/** Leases are shared, so there are far fewer of them than claims. */
async function remainingByLease(
  rpc: EtcdRpc,
  claims: readonly ListedKey[],
): Promise<ReadonlyMap<Long, number>> {
  const leases = [...new Set(claims.map(({ kv }) => kv.lease))].filter((lease) => lease !== "0");
  const asked = leases.map(async (lease) => [lease, restMs(await rpc.timeToLive(lease))] as const);
  return new Map(await Promise.all(asked));
}

/** The servers tell whole seconds, rounded down; a lease that is gone has less than none. */
function restMs({ TTL, grantedTTL }: LeaseRest): number {
  return Number(TTL) < 0 ? 0 : Math.min(Number(TTL) + 1, Number(grantedTTL)) * 1_000;
}
