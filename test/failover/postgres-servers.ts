import { setTimeout as sleep } from "node:timers/promises";
import { type FaultProxy, startFaultProxy } from "#lib/testing/faults.js";
import type { WorkerBackend } from "#lib/testing/index.js";
import {
  askPostgres,
  crash,
  type Postgres,
  type PostgresSetup,
  setReadOnly,
  startPostgres,
  startStandby,
} from "../engines/postgres/server.js";
import { type Stoppable, stopAll } from "../servers/server-process.js";
import { type MovingAddress, startAddress } from "./address.js";
import { until } from "./until.js";

interface Standby {
  readonly server: Postgres;
  /** Between it and its primary. */
  readonly wire: FaultProxy;
}

/** A primary, a standby that can take its place, and the address by which clients find the one that is primary. */
export class PostgresServers implements Stoppable {
  readonly #started: Stoppable[] = [];
  #primary: Postgres;
  #standby: Standby | undefined;
  readonly #address: MovingAddress;

  private constructor(primary: Postgres, address: MovingAddress) {
    this.#primary = primary;
    this.#address = address;
    this.#started.push(primary, address);
  }

  static async start(): Promise<PostgresServers> {
    const primary = await startPostgres();
    return new PostgresServers(primary, await startAddress(primary.port));
  }

  get primary(): Postgres {
    return this.#primary;
  }

  /** How a process opens its locks at the moving address. */
  backend(): WorkerBackend {
    return backendAt(this.#address.port);
  }

  version(): Promise<string> {
    return versionOf(this.#primary.url);
  }

  /** A standby that follows the primary; `synchronous`: each commit waits until it has applied it. */
  async addStandby(
    setup: { readonly synchronous?: boolean; readonly env?: PostgresSetup["env"] } = {},
  ): Promise<void> {
    const { host, port, url } = this.#primary;
    const wire = await startFaultProxy({ target: { host, port } });
    this.#started.push({ stop: () => wire.close() });
    const settings = ["wal_retrieve_retry_interval = '200ms'"];
    const server = await startStandby(wire, { settings, ...(setup.env && { env: setup.env }) });
    this.#started.push(server);
    this.#standby = { server, wire };
    if (setup.synchronous) {
      await askPostgres(url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
      await askPostgres(url, "ALTER SYSTEM SET synchronous_commit = 'remote_apply'");
      await askPostgres(url, "SELECT pg_reload_conf()");
    }
    const state = setup.synchronous ? "sync_state = 'sync'" : "state = 'streaming'";
    const following = () => askPostgres(url, `SELECT 1 FROM pg_stat_replication WHERE ${state}`);
    await until("the standby follows", async () => (await following()).length === 1);
  }

  /** From now on nothing that the primary commits reaches the standby, and neither of them is told. */
  holdBack(): void {
    this.#next().wire.blackhole("both");
  }

  /** And what was held back is sent. */
  deliver(): void {
    this.#next().wire.heal();
  }

  /** The primary crashes while what it has committed for this time has not reached the standby, which is promoted. */
  async failOverLossily(holdBackMs: number): Promise<void> {
    this.holdBack();
    await sleep(holdBackMs);
    await crash(this.#primary);
    await this.promote();
  }

  /** The primary refuses whatever writes, and the standby has all that it has written. Sessions stay open. */
  async retirePrimary(): Promise<void> {
    const { url } = this.#primary;
    await setReadOnly(url, true);
    const writing = "SELECT 1 FROM pg_stat_activity WHERE backend_xid IS NOT NULL";
    await until("nothing is being written", async () => (await askPostgres(url, writing)).length === 0);
    const [at] = await askPostgres(url, "SELECT pg_current_wal_lsn() AS lsn");
    const reached = `SELECT pg_last_wal_replay_lsn() >= '${at?.lsn}' AS reached`;
    const standby = this.#next().server.url;
    await until(
      "the standby has it all",
      async () => (await askPostgres(standby, reached))[0]?.reached === true,
    );
  }

  /** The standby becomes the primary, and new connections lead there. The old server stays as it is. */
  async promote(): Promise<void> {
    const { server } = this.#next();
    await askPostgres(server.url, "SELECT pg_promote(true, 60)");
    this.#primary = server;
    this.#standby = undefined;
    this.#address.moveTo(server.port);
  }

  async stop(): Promise<void> {
    await stopAll(this.#started.splice(0));
  }

  #next(): Standby {
    if (this.#standby === undefined) throw new Error("there is no standby");
    return this.#standby;
  }
}

export function backendAt(port: number): WorkerBackend {
  return {
    module: new URL("../engines/postgres/worker-backend.mjs", import.meta.url).href,
    args: { url: `postgres://postgres@127.0.0.1:${port}/postgres`, prefix: "failovers" },
  };
}

export async function versionOf(url: string): Promise<string> {
  const [row] = await askPostgres(url, "SHOW server_version");
  return `PostgreSQL ${String(row?.server_version).split(" ")[0]}`;
}
