import type { ClaimRecord, ResourceRecord } from "../../core/backend.js";
import { parsed, readMetadata, shownMs } from "../../engine-kit/claim-metadata.js";
import { claimRecord, resourceRecord } from "../session-queue/claims.js";
import { encodeName, type KeyRange, keysUnder, type ListedKey, QueueKeys, readClaimKey } from "./keys.js";
import type { LeaseRest, Long } from "./messages.js";
import type { EtcdRpc } from "./rpc.js";

const PAGE = 1_000;

/** The live claims of one name, for people to look at. */
export async function readRecord(
  rpc: EtcdRpc,
  root: string,
  name: string,
  limit?: number,
): Promise<ResourceRecord | undefined> {
  const queue = new QueueKeys(root, name);
  const request = { ...queue.all(), keys_only: false, ...(limit === undefined ? undefined : { limit }) };
  const claims = queue.read(await rpc.range(request));
  return recordOf(name, claims, await remainingByLease(rpc, claims));
}

/** Every name that begins so, page by page. A name's claims stand together, so they may span two pages. */
export async function* readRecords(
  rpc: EtcdRpc,
  root: string,
  prefix: string,
): AsyncIterable<ResourceRecord> {
  const { key, range_end } = keysUnder(`${root}${encodeName(prefix)}`);
  let range: KeyRange = { key, range_end };
  let open: ListedKey[] = [];
  // Of all pages: the last name of one is told with the next.
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
      if (open.length > 0 && open[0]?.name !== claim.name) {
        yield* recordsOf(open, remaining);
        open = [];
      }
      open.push(claim);
    }
    const last = kvs.at(-1);
    if (!more || last === undefined) {
      yield* recordsOf(open, remaining);
      return;
    }
    range = { key: Buffer.concat([last.key, Buffer.from([0])]), range_end };
  }
}

function recordsOf(claims: ListedKey[], remaining: ReadonlyMap<Long, number>): ResourceRecord[] {
  const name = claims[0]?.name;
  const sorted = claims.sort((a, b) => (a.ticket < b.ticket ? -1 : 1));
  const record = name === undefined ? undefined : recordOf(name, sorted, remaining);
  return record === undefined ? [] : [record];
}

function recordOf(
  name: string,
  listed: readonly ListedKey[],
  remaining: ReadonlyMap<Long, number>,
): ResourceRecord | undefined {
  const claims = listed.map((claim) => shown(claim, remaining));
  return resourceRecord(name, listed, claims);
}

function shown(claim: ListedKey, remaining: ReadonlyMap<Long, number>): ClaimRecord {
  const { name, id, ticket, weight, kv } = claim;
  const value = readMetadata(parsed(kv.value.toString()));
  const ageMs = Date.now() - shownMs(value.granted ?? value.came, Date.now());
  const remainingMs = remaining.get(kv.lease) ?? 0;
  return claimRecord({ name, id, ticket, weight, ageMs, remainingMs }, value);
}

/** Leases are shared, so there are far fewer of them than claims. */
async function remainingByLease(
  rpc: EtcdRpc,
  claims: readonly ListedKey[],
): Promise<ReadonlyMap<Long, number>> {
  const leases = [...new Set(claims.map(({ kv }) => kv.lease))].filter((lease) => lease !== "0");
  const answers = await Promise.all(
    leases.map(async (lease) => [lease, restMs(await rpc.timeToLive(lease))] as const),
  );
  return new Map(answers);
}

/** The servers tell whole seconds, rounded down; a lease that is gone has less than none. */
function restMs({ TTL, grantedTTL }: LeaseRest): number {
  return Number(TTL) < 0 ? 0 : Math.min(Number(TTL) + 1, Number(grantedTTL)) * 1_000;
}
