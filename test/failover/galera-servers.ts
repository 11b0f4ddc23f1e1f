import { askMariadb, type Mariadb, startMariadb } from "../engines/mysql/server.js";
import { freePorts } from "../servers/free-port.js";
import { type Stoppable, stopAll } from "../servers/server-process.js";

export const GALERA_PROGRAM = { program: "/usr/lib/galera/libgalera_smm.so", package: "galera-4" };

/** A member that is killed is missed after 2 s. */
const TIMING = [
  "evs.keepalive_period=PT0.3S",
  "evs.inactive_check_period=PT0.3S",
  "evs.suspect_timeout=PT2S",
  "evs.inactive_timeout=PT6S",
  "evs.install_timeout=PT6S",
];

/** It copies all data from another member first. */
const JOIN_MS = 60_000;

export interface GaleraNode extends Mariadb {
  /** Where the other members find it. */
  readonly member: string;
}

/** A cluster in which every server takes writes. */
export class GaleraServers implements Stoppable {
  readonly #nodes: GaleraNode[] = [];

  static async start(count: number): Promise<GaleraServers> {
    const servers = new GaleraServers();
    try {
      for (let index = 0; index < count; index++) await servers.add();
    } catch (error) {
      await servers.stop();
      throw error;
    }
    return servers;
  }

  get nodes(): readonly GaleraNode[] {
    return this.#nodes;
  }

  /** Resolves when it has the data of the others and answers. The first one makes the cluster. */
  async add(port?: number): Promise<GaleraNode> {
    const [groupPort, transferPort, copyPort] = await freePorts(3);
    const member = `127.0.0.1:${groupPort}`;
    const provider = [
      ...TIMING,
      `gmcast.listen_addr=tcp://${member}`,
      `ist.recv_addr=127.0.0.1:${transferPort}`,
      "gcache.size=16M",
      "gcache.page_size=16M",
    ];
    const server = await startMariadb(
      [
        "--wsrep-on=ON",
        `--wsrep-provider=${GALERA_PROGRAM.program}`,
        `--wsrep-provider-options=${provider.join(";")}`,
        `--wsrep-cluster-address=gcomm://${this.#nodes.map((node) => node.member).join(",")}`,
        `--wsrep-node-address=127.0.0.1:${groupPort}`,
        `--wsrep-sst-receive-address=127.0.0.1:${copyPort}`,
        "--wsrep-sst-method=rsync",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
      ],
      { startTimeoutMs: JOIN_MS, ...(port !== undefined && { port }) },
    );
    const node = { ...server, member };
    this.#nodes.push(node);
    return node;
  }

  /** As by a power cut. */
  async crash(node: GaleraNode): Promise<void> {
    this.#nodes.splice(this.#nodes.indexOf(node), 1);
    await node.process.kill();
    await node.stop();
  }

  async version(): Promise<string> {
    const [row] = await askMariadb(this.#nodes[0]?.url ?? "", "SELECT VERSION() AS version");
    return `MariaDB ${String(row?.version).split("-")[0]} with Galera`;
  }

  async stop(): Promise<void> {
    await stopAll(this.#nodes.splice(0));
  }
}
