import type { ClaimRecord, ResourceRecord } from "../../core/backend.js";
import { parsed, readMetadata, shownMs } from "../../engine-kit/claim-metadata.js";
import { claimRecord, resourceRecord } from "../session-queue/claims.js";
import { parentOf } from "./claim.js";
import { unless } from "./errors.js";
import { decodeName, type ListedNode } from "./keys.js";
import { ERROR, getChildren, sync } from "./messages.js";
import type { Session, Sessions } from "./session.js";

const NAMES_AT_ONCE = 50;

/** The live claims of one name, for people to look at. */
export async function readRecord(
  session: Session,
  root: string,
  name: string,
  limit?: number,
): Promise<ResourceRecord | undefined> {
  return recordOf(session, root, name, await session.queues.latest(parentOf(root, name)), limit);
}

async function recordOf(
  session: Session,
  root: string,
  name: string,
  listed: readonly ListedNode[],
  limit?: number,
): Promise<ResourceRecord | undefined> {
  const parent = parentOf(root, name);
  const read = listed.slice(0, limit).map((claim) => readClaim(session, parent, name, claim));
  const claims = (await Promise.all(read)).flatMap((claim) => claim ?? []);
  return resourceRecord(name, listed, claims);
}

/** Every name that begins so. */
export async function* readRecords(
  sessions: Sessions,
  root: string,
  prefix: string,
): AsyncIterable<ResourceRecord> {
  const session = await sessions.any();
  const { client, queues } = session;
  const syncing = client.send(sync(root || "/"));
  const reading = client.send(getChildren(root || "/")).catch(unless(ERROR.noNode));
  const [, nodes] = await Promise.all([syncing, reading]);
  const names = (nodes ?? []).flatMap((node) => decodeName(node) ?? []);
  const wanted = names.filter((name) => name.startsWith(prefix)).sort();
  for (let from = 0; from < wanted.length; from += NAMES_AT_ONCE) {
    const some = wanted.slice(from, from + NAMES_AT_ONCE);
    const records = await Promise.all(
      some.map(async (name) => recordOf(session, root, name, await queues.read(parentOf(root, name)))),
    );
    yield* records.flatMap((record) => record ?? []);
  }
}

async function readClaim(
  session: Session,
  parent: string,
  name: string,
  { node, id, weight }: ListedNode,
): Promise<ClaimRecord | undefined> {
  const read = await session.find(`${parent}/${node}`);
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
