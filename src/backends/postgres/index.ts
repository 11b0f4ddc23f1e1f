import type { Backend, Traits } from "../../core/backend.js";
import { readPrefix } from "../sql/address.js";
import { SqlBackend } from "../sql/backend.js";
import type { Poller } from "../sql/poller.js";
import { PooledLink } from "../sql/pooled-link.js";
import type { Watching } from "../sql/watching.js";
import { Bell } from "./bell.js";
import { openClient } from "./client.js";
import { migration as migrationOf } from "./dialect.js";
import { postgresDriver } from "./driver.js";
import { type PostgresOptions, readPostgresOptions } from "./options.js";

export type { PgClientLike, PgPooledClient, PgPoolLike, PgQuery } from "./client.js";
export type { PostgresOptions } from "./options.js";

/** Locks in tables of a PostgreSQL database. */
export function postgres(options: PostgresOptions = {}): Backend {
  const settings = readPostgresOptions(options);
  const { target, listen, timeoutMs } = settings;
  const link = new PooledLink(postgresDriver(settings), settings);
  const connect = () => (target.address === undefined ? link.lend() : openClient(target.address, timeoutMs));
  let bell: Bell | undefined;
  const listening = (watching: Watching, poller: Poller) => {
    bell = new Bell(connect, settings, watching, poller);
    return bell;
  };
  return new SqlBackend({
    link,
    retentionMs: settings.retentionMs,
    traits: () => traitsOf(listen && bell?.deaf !== true, listen),
    ...(listen ? { bell: listening } : undefined),
  });
}

/** What `schema: "create"` would run, to be read, and run by somebody who may. */
export function migration(prefix = "locktender"): string {
  return migrationOf(readPrefix(prefix));
}

function traitsOf(ringing: boolean, wanted: boolean): Traits {
  const polling = "waiters look every 5 to 100 ms, with one statement for all of this process.";
  return {
    engine: "postgres",
    reach: "network",
    fencing: true,
    queueing: true,
    ringing,
    ttl: "claim",
    expiryGranularityMs: ringing ? 20 : 100,
    caveats: [
      "Asynchronous replication: if a replica is promoted that does not have the last commits, two may believe they hold a lock. Fencing tokens contain that, if the servers' clocks differ by less than the failover takes.",
      "With synchronous_commit or fsync off, a crash of the server may take back grants, too.",
      ...(ringing
        ? []
        : [
            wanted
              ? `LISTEN does not work here, as behind a pooler in transaction mode: ${polling}`
              : `No connection listens: ${polling}`,
          ]),
    ],
  };
}
