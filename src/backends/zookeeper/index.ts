import type { Backend, ClaimRecord, ResourceRecord } from "../../core/backend.js";
import { parsed, readMetadata, shownMs } from "../../engine-kit/replies.js";
import { SessionBackend } from "../session-queue/backend.js";
import { claimRecord, resourceRecord } from "../session-queue/claims.js";
import { ZooKeeperCells } from "./cells.js";
import { parentOf, takeAway } from "./claim.js";
import { ZooKeeperDriver } from "./driver.js";
import { againIfExpired, unless } from "./errors.js";
import { decodeName, type ListedNode } from "./keys.js";
import { ERROR, getChildren, sync } from "./messages.js";
import { readZooKeeperOptions, type ZooKeeperOptions } from "./options.js";
import type { Session, Sessions } from "./session.js";

export type { ZooKeeperOptions } from "./options.js";

const CAVEATS = [
  "Sessions last from two to twenty ticks of the servers (4 to 40 s by default): shorter times to live are raised to that, longer ones are refused.",
  "A lease is trusted for two thirds of its ttl after a renewal, because a server that is cut off from its leader does not know it.",
  "A new leader gives all sessions their whole time again, so after an election a dead holder may keep its lock for longer than its ttl.",
];

/**
 * Locks on ZooKeeper, for `createLocks`, in the layout of Curator. Short ttls are raised to the shortest session that the
 * servers allow: 4 s by default.
 *
 * @example
 * ```ts
 * import { createLocks } from "locktender";
 * import { zookeeper } from "locktender/zookeeper";
 *
 * const locks = createLocks(zookeeper({ url: "zookeeper://127.0.0.1:2181" }));
 * ```
 */
export function zookeeper(options: ZooKeeperOptions): Backend {
  const settings = readZooKeeperOptions(options);
  const driver = new ZooKeeperDriver(settings);
  const { sessions, root } = driver;
  return new SessionBackend(driver, {
    engine: "zookeeper",
    caveats: CAVEATS,
    tls: settings.tls,
    cells: new ZooKeeperCells(driver),
    record: async (name, limit) => readRecord(await sessions.any(), root, name, limit),
    records: (prefix) => readRecords(sessions, root, prefix),
    takeAway: async (claim, force) => takeAway(await sessions.any(), root, claim, force),
    onNextSession: againIfExpired,
  });
}

const NAMES_AT_ONCE = 50;

async function readRecord(
  session: Session,
  root: string,
  name: string,
  limit?: number,
): Promise<ResourceRecord | undefined> {
  return recordOf(session, root, name, await session.queues.latest(parentOf(root, name)), limit);
}

async function* readRecords(
  sessions: Sessions,
  root: string,
  prefix: string,
): AsyncIterable<ResourceRecord | undefined> {
  const session = await sessions.any();
  const { client, queues } = session;
  const syncing = client.send(sync(root || "/"));
  const reading = client.send(getChildren(root || "/")).catch(unless(ERROR.noNode));
  const [, nodes] = await Promise.all([syncing, reading]);
  const names = (nodes ?? []).flatMap((node) => decodeName(node) ?? []);
  const wanted = names.filter((name) => name.startsWith(prefix)).sort();
  for (let from = 0; from < wanted.length; from += NAMES_AT_ONCE) {
    const some = wanted.slice(from, from + NAMES_AT_ONCE);
    yield* await Promise.all(
      some.map(async (name) => recordOf(session, root, name, await queues.read(parentOf(root, name)))),
    );
  }
}

async function recordOf(
  session: Session,
  root: string,
  name: string,
  listed: readonly ListedNode[],
  limit?: number,
): Promise<ResourceRecord | undefined> {
  const read = listed.slice(0, limit).map((claim) => readClaim(session, root, name, claim));
  const claims = (await Promise.all(read)).flatMap((claim) => claim ?? []);
  return resourceRecord(listed, claims);
}

async function readClaim(
  session: Session,
  root: string,
  name: string,
  { node, id, weight }: ListedNode,
): Promise<ClaimRecord | undefined> {
  const read = await session.find(`${parentOf(root, name)}/${node}`);
  // Gone meanwhile; or a node that lives by no session, which is no claim.
  if (read === undefined || read.stat.ephemeralOwner === 0n) return undefined;
  const value = readMetadata(parsed(read.data.toString()));
  const sinceMs = read.stat.ctimeMs + shownMs(value.granted, 0);
  // The server's wall clock against ours.
  const ageMs = Math.max(0, Date.now() - sinceMs);
  // How much of it is left, only the servers know.
  const remainingMs = shownMs(value.ttl, 0);
  return claimRecord({ name, id, ticket: read.stat.czxid, weight, ageMs, remainingMs }, value);
}
