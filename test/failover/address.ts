import { startFaultProxy } from "#lib/testing/faults.js";
import type { Stoppable } from "../servers/server-process.js";

/** Where clients find the primary, whichever server that is. */
export interface MovingAddress extends Stoppable {
  readonly port: number;
  /** The port that it leads to. */
  readonly target: number;
  /** New connections lead there from now on; open ones stay with the server that they have. */
  moveTo(port: number): void;
}

export async function startAddress(port: number): Promise<MovingAddress> {
  const target = { host: "127.0.0.1", port };
  const proxy = await startFaultProxy({ target });
  return {
    port: proxy.port,
    get target() {
      return target.port;
    },
    moveTo: (next) => {
      target.port = next;
    },
    stop: () => proxy.close(),
  };
}
