import { setTimeout as sleep } from "node:timers/promises";
import { type FaultProxy, startFaultProxy } from "#lib/testing/faults.js";
import type { WorkerBackend } from "#lib/testing/index.js";
import { askMariadb, isMysql, type Mariadb, startMariadb } from "../engines/mysql/server.js";
import { type Stoppable, stopAll } from "../servers/server-process.js";
import { type MovingAddress, startAddress } from "./address.js";
import { until } from "./until.js";

export const PRODUCT = isMysql() ? "mysql" : "mariadb";

/** Unlike the user of the tests, whom a read-only server obeys. */
const USER = "app";
const MAKE_USER = [
  `CREATE USER IF NOT EXISTS '${USER}'@'127.0.0.1'`,
  `GRANT ALL ON locks.* TO '${USER}'@'127.0.0.1'`,
].join("; ");

export const GTID = isMysql() ? ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"] : [];

/** Statements that MySQL and MariaDB say in different words. */
const SQL = isMysql()
  ? {
      follow: (port: number) =>
        `CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = ${port}, SOURCE_USER = 'tester',
           SOURCE_AUTO_POSITION = 1, SOURCE_CONNECT_RETRY = 1, GET_SOURCE_PUBLIC_KEY = 1;
         START REPLICA`,
      readOnly: (on: boolean) => `SET GLOBAL super_read_only = ${on}; SET GLOBAL read_only = ${on}`,
      position: "SELECT @@GLOBAL.gtid_executed AS position",
      reached: (position: string) => `SELECT GTID_SUBSET('${position}', @@GLOBAL.gtid_executed) AS reached`,
      leave: "STOP REPLICA; RESET REPLICA ALL",
    }
  : {
      follow: (port: number) =>
        `CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = ${port}, MASTER_USER = 'tester',
           MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1;
         START SLAVE`,
      readOnly: (on: boolean) => `SET GLOBAL read_only = ${on}`,
      position: "SELECT @@GLOBAL.gtid_current_pos AS position",
      reached: (position: string) => `SELECT MASTER_GTID_WAIT('${position}', 0) = 0 AS reached`,
      leave: "STOP SLAVE; RESET SLAVE ALL",
    };

interface Replica {
  readonly server: Mariadb;
  /** Between it and its source. */
  readonly wire: FaultProxy;
}

/** A primary, a replica that can take its place, and the address by which clients find the one that is primary. */
export class MysqlServers implements Stoppable {
  readonly #started: Stoppable[] = [];
  readonly #address: MovingAddress;
  #primary: Mariadb;
  #replica: Replica | undefined;

  private constructor(primary: Mariadb, address: MovingAddress) {
    this.#primary = primary;
    this.#address = address;
    this.#started.push(primary, address);
  }

  static async start(): Promise<MysqlServers> {
    const primary = await startServer();
    return new MysqlServers(primary, await startAddress(primary.port));
  }

  /** How a process opens its locks at the moving address. */
  backend(): WorkerBackend {
    return backendAt(this.#address.port);
  }

  version(): Promise<string> {
    return versionOf(this.#primary.url);
  }

  /** A replica that has all that the primary has written so far. */
  async addReplica(setup: { readonly env?: Readonly<Record<string, string>> } = {}): Promise<void> {
    const wire = await startFaultProxy({ target: { host: "127.0.0.1", port: this.#primary.port } });
    this.#started.push({ stop: () => wire.close() });
    const server = await startServer(setup.env);
    this.#started.push(server);
    this.#replica = { server, wire };
    await askMariadb(server.url, SQL.readOnly(true));
    await askMariadb(server.url, SQL.follow(wire.port));
    await this.#caughtUp(server);
  }

  /** The primary is killed while what it has committed for this time has not reached the replica, which is promoted. */
  async failOverLossily(holdBackMs: number): Promise<void> {
    this.#next().wire.blackhole("both");
    await sleep(holdBackMs);
    await this.#primary.process.kill();
    await this.#promote();
  }

  /** The primary refuses whatever writes, the replica has it all and takes its place. Sessions stay open. */
  async switchOver(): Promise<void> {
    await askMariadb(this.#primary.url, SQL.readOnly(true));
    await this.#caughtUp(this.#next().server);
    await this.#promote();
  }

  async stop(): Promise<void> {
    await stopAll(this.#started.splice(0));
  }

  async #caughtUp(replica: Mariadb): Promise<void> {
    const [at] = await askMariadb(this.#primary.url, SQL.position);
    const reached = SQL.reached(String(at?.position));
    const has = async () => Number((await askMariadb(replica.url, reached))[0]?.reached) === 1;
    await until("the replica has it all", has);
  }

  async #promote(): Promise<void> {
    const { server } = this.#next();
    await askMariadb(server.url, SQL.leave);
    await askMariadb(server.url, SQL.readOnly(false));
    this.#primary = server;
    this.#replica = undefined;
    this.#address.moveTo(server.port);
  }

  #next(): Replica {
    if (this.#replica === undefined) throw new Error("there is no replica");
    return this.#replica;
  }
}

let lastId = 0;

/** With a log that replicas can follow, and the user of the processes. */
export async function startServer(
  env: Readonly<Record<string, string>> = {},
  settings: readonly string[] = GTID,
): Promise<Mariadb> {
  const log = [`--server-id=${++lastId}`, "--log-bin=binlog", "--binlog-format=ROW"];
  const more = isMysql() ? ["--log-replica-updates=ON"] : ["--log-slave-updates=ON"];
  const server = await startMariadb([...log, ...more, "--log-bin-trust-function-creators=ON", ...settings], {
    env,
  });
  await askMariadb(server.url, MAKE_USER);
  return server;
}

export function backendAt(port: number): WorkerBackend {
  return {
    module: new URL("../engines/mysql/worker-backend.mjs", import.meta.url).href,
    args: { url: `mysql://${USER}@127.0.0.1:${port}/locks`, prefix: "failovers" },
  };
}

export async function versionOf(url: string): Promise<string> {
  const [row] = await askMariadb(url, "SELECT VERSION() AS version");
  return `${isMysql() ? "MySQL" : "MariaDB"} ${String(row?.version).split("-")[0]}`;
}
