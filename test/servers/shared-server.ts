import type { EngineName } from "../engines.js";
import type { NeededProgram } from "./programs.js";
import type { ServerProcess, Stoppable } from "./server-process.js";

export interface SharedNode {
  readonly host: string;
  readonly port: number;
  readonly pid: number;
}

/** What tests learn of a server that they share. */
export interface SharedServer {
  readonly url: string;
  /**
   * For a Redis Cluster in the order of their slots; behind sentinels the master of the start comes first.
   * Empty for a server named by the environment.
   */
  readonly nodes: readonly SharedNode[];
  readonly sentinels: readonly SharedNode[];
}

export type Running = Stoppable & SharedServer;
type Node = { readonly host?: string; readonly port: number; readonly process: ServerProcess };

/** The default export of test/engines/<name>/servers.ts. */
export interface EngineServers {
  /** What has to be installed for the tests of this engine. */
  readonly programs: readonly NeededProgram[];
  /** By the names that test/engines.ts lists. */
  readonly start: Readonly<Record<string, () => Promise<Running>>>;
}

export async function loadEngineServers(name: EngineName): Promise<EngineServers> {
  return ((await import(`../engines/${name}/servers.ts`)) as { default: EngineServers }).default;
}

export function running(
  server: Stoppable & { url: string },
  nodes: readonly Node[],
  sentinels: readonly Node[] = [],
): Running {
  const describe = ({ host = "127.0.0.1", port, process }: Node) => ({ host, port, pid: process.pid });
  return {
    url: server.url,
    nodes: nodes.map(describe),
    sentinels: sentinels.map(describe),
    stop: () => server.stop(),
  };
}

export function inNodes(server: Stoppable & { url: string; nodes: readonly Node[] }): Running {
  return running(server, server.nodes);
}

export function itself(server: Stoppable & { url: string } & Node): Running {
  return running(server, [server]);
}
