import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { expectThroughFailovers } from "./harness.js";

/** A server on which commits can be made to hang. */
export interface HangingServer {
  readonly setup: string;
  readonly server: string;
  readonly engine: "postgres" | "mysql";
  /** For a user with all rights, whose name no other test uses. */
  url(user: string): string;
  /** How many connections of that user the server has. */
  connections(user: string): Promise<number>;
  /** From now on no commit returns; and then all of them do. */
  hang(): Promise<void>;
  resume(): Promise<void>;
  /** How many connections a process by URL may have: the option `connections`, and those that the page names. */
  readonly mostByUrl: number;
}

export const BY_URL = "by_url";
export const BY_POOL = "by_pool";
/** Of each of the two groups. */
const PROCESSES = 3;
const POOL_SIZE = 5;
const AWAY_MS = 60_000;
const COUNT_EVERY_MS = 250;

/**
 * While commits hang, requests time out and are repeated. The server must not fill up with those that no caller
 * waits for any more: neither by connections of our own, nor by a pool of the caller's.
 */
export async function expectBoundedWhileAway(hanging: HangingServer): Promise<void> {
  const { engine, url } = hanging;
  const byUrl = {
    module: new URL(`../engines/${engine}/worker-backend.mjs`, import.meta.url).href,
    args: { url: url(BY_URL), prefix: "away_by_url" },
  };
  const byPool = {
    module: new URL("./pool-backend.mjs", import.meta.url).href,
    args: { engine, url: url(BY_POOL), max: POOL_SIZE, prefix: "away_by_pool" },
  };
  let away: Promise<void> | undefined;
  const groups = [
    { user: BY_URL, how: "by URL", backend: byUrl, allowed: hanging.mostByUrl * PROCESSES, most: 0 },
    { user: BY_POOL, how: "own pool", backend: byPool, allowed: POOL_SIZE * PROCESSES, most: 0 },
  ];
  const counting = async () => {
    await hanging.hang();
    const untilMs = performance.now() + AWAY_MS;
    const before = new Map<string, number>();
    while (performance.now() < untilMs) {
      for (const group of groups) {
        const now = await hanging.connections(group.user);
        // The lower of two counts: the server takes a moment to let go of a connection that was closed.
        group.most = Math.max(group.most, Math.min(before.get(group.user) ?? 0, now));
        before.set(group.user, now);
      }
      await sleep(COUNT_EVERY_MS);
    }
    await hanging.resume();
  };
  await Promise.all(
    groups.map((group) =>
      expectThroughFailovers({
        setup: `${hanging.setup}, ${group.how}`,
        promised: { overlaps: "none", leases: "kept" },
        server: hanging.server,
        backend: group.backend,
        processes: PROCESSES,
        failovers: 1,
        failOver: () => (away ??= counting()),
        also: () => ({ connections: group.most, "connections allowed": group.allowed }),
      }),
    ),
  );
  for (const { user, most, allowed } of groups) {
    expect(most, `connections of ${user} at the server`).toBeLessThanOrEqual(allowed);
  }
}
