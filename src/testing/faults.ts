import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { type ChunkMatch, Connection, type Direction, setTrap, type Wire } from "./wire.js";

export type { ChunkMatch, Direction };

/** Which server is behind the proxy, and how the proxy behaves. */
export interface FaultProxyOptions {
  /** Read for each new connection: a caller that changes it moves the address, and open connections stay. */
  target: {
    /** A name or an address. */
    host: string;
    /** The port that the server listens on. */
    port: number;
  };
  /** The port to listen on; a free one by default. */
  port?: number | undefined;
  /**
   * How long `cutBeforeReply` and `holdBack` wait for data that matches; 5,000 ms if not given. Then they are called
   * off, and their promises reject with the reason. `Infinity`: for as long as it takes.
   */
  trapMs?: number | undefined;
}

const TRAP_MS = 5_000;

/** A request that is under way for as long as the test likes. */
export interface HeldBack {
  /** Resolves when a chunk was caught. */
  readonly caught: Promise<void>;
  /** Writes the caught chunk to the server; resolves when the server answered, or after 200 ms. */
  deliver(): Promise<void>;
  /** Resolves when the server has closed the connection of the caught chunk. */
  readonly serverClosed: Promise<void>;
}

/** A wire between a client and a server that breaks on request. It knows bytes, and no protocol. */
export interface FaultProxy {
  /** Where it listens. */
  readonly host: string;
  /** Where it listens. */
  readonly port: number;
  /** How many clients are connected. */
  readonly connections: number;
  /** How many clients have connected so far. */
  readonly accepted: number;
  /**
   * Makes the wire plain again: delayed bytes arrive at once, and faults that still wait for their chunk are
   * called off (their promises reject). What holdBack() caught stays held. A connection that lost bytes in a
   * blackhole is destroyed, since TCP never loses bytes in the middle of a stream.
   */
  heal(): void;
  /** Delays every chunk that is read from now on, in order. Replaces the delay set before. */
  delay(delay: {
    /** For what the client sends; 0 if not given. */
    toServerMs?: number;
    /** For what the server sends; 0 if not given. */
    toClientMs?: number;
  }): void;
  /** Swallows bytes and goodbyes silently while the sockets stay open. Replaces the blackhole set before. */
  blackhole(direction: Direction | "both"): void;
  /**
   * Forwards the next request that matches, and destroys its connection in place of passing the reply on.
   * Resolves when that was done, and rejects if nothing matches within `trapMs`. The first bytes to come back count
   * as the reply: do not pipeline before it.
   */
  cutBeforeReply(match?: ChunkMatch): Promise<void>;
  /**
   * Holds back the next chunk to the server that matches, and all that follows it on its connection. The
   * client may give up and close meanwhile (dropAll() does it for the client): deliver() still delivers. If nothing
   * matches within `trapMs`, it is called off, and its promises reject.
   */
  holdBack(match?: ChunkMatch): HeldBack;
  /** Destroys all connections, and each new one as soon as it comes, until heal(). */
  refuse(): void;
  /** Destroys the connections of this moment. */
  dropAll(): void;
  /** Destroys all connections, and listens no more. */
  close(): Promise<void>;
}

/**
 * Starts a proxy on 127.0.0.1 through which a client can be cut off from a server in every mean way.
 *
 * @example
 * ```ts
 * import { startFaultProxy } from "locktender/testing";
 *
 * const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port: 6379 } });
 * console.log(`redis://${proxy.host}:${proxy.port}`); // what your code connects to
 * proxy.blackhole("both"); // and then: proxy.heal()
 * await proxy.close();
 * ```
 */
export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const { trapMs = TRAP_MS } = options;
  const wire: Wire = {
    delayMs: { "to-server": 0, "to-client": 0 },
    blackhole: undefined,
    refusing: false,
    cuts: [],
    holds: [],
  };
  const connections = new Set<Connection>();
  let accepted = 0;
  const callOffTraps = (reason: string): void => {
    for (const trap of [...wire.cuts.splice(0), ...wire.holds.splice(0)]) trap.callOff(reason);
  };
  const dropAll = (): void => {
    for (const connection of connections) connection.drop();
  };

  // Half-open on both sides, so that a FIN travels through the lanes like any byte, behind what came before.
  const listener = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    if (wire.refusing) {
      client.on("error", () => {}); // the client may be gone already, which is all that we want
      client.resetAndDestroy();
      return;
    }
    const server = connect({ ...options.target, allowHalfOpen: true, noDelay: true });
    const connection = new Connection(wire, client, server, () => connections.delete(connection));
    connections.add(connection);
    accepted++;
  });
  listener.listen(options.port ?? 0, "127.0.0.1");
  await once(listener, "listening");

  return {
    host: "127.0.0.1",
    port: (listener.address() as AddressInfo).port,
    get accepted() {
      return accepted;
    },
    get connections() {
      return [...connections].filter((connection) => connection.hasClient).length;
    },
    heal() {
      wire.delayMs = { "to-server": 0, "to-client": 0 };
      wire.blackhole = undefined;
      wire.refusing = false;
      callOffTraps("heal() came before a matching chunk");
      for (const connection of connections) {
        if (connection.lostBytes) connection.drop();
        else connection.hurry();
      }
    },
    delay({ toServerMs = 0, toClientMs = 0 }) {
      wire.delayMs = { "to-server": toServerMs, "to-client": toClientMs };
    },
    blackhole(direction) {
      wire.blackhole = direction;
    },
    cutBeforeReply: (match) => setTrap(wire.cuts, trapMs, match).sprung,
    holdBack(match) {
      const { sprung } = setTrap(wire.holds, trapMs, match);
      let delivered: Promise<void> | undefined;
      const caught = sprung.then(() => {});
      const serverClosed = sprung.then((chunk) => chunk.serverClosed);
      // As in setTrap(): only a test that awaits them needs to hear.
      caught.catch(() => {});
      serverClosed.catch(() => {});
      return {
        caught,
        // Asked for twice it is still delivered once, as it is one packet.
        deliver: () => (delivered ??= sprung.then((chunk) => chunk.deliver())),
        serverClosed,
      };
    },
    refuse() {
      wire.refusing = true;
      dropAll();
    },
    dropAll,
    async close() {
      callOffTraps("the proxy was closed before a matching chunk");
      for (const connection of connections) connection.destroy();
      await once(listener.close(), "close");
    },
  };
}

/** Several wires, to the servers of one engine, as one: they break together. */
export function asOne(proxies: readonly FaultProxy[]): FaultProxy {
  const [first] = proxies;
  if (first === undefined) throw new RangeError("there is no wire");
  const onEach = (act: (proxy: FaultProxy) => void) => () => proxies.forEach(act);
  return {
    host: first.host,
    port: first.port,
    get connections() {
      return proxies.reduce((sum, { connections }) => sum + connections, 0);
    },
    get accepted() {
      return proxies.reduce((sum, { accepted }) => sum + accepted, 0);
    },
    heal: onEach((proxy) => proxy.heal()),
    delay: (delay) => onEach((proxy) => proxy.delay(delay))(),
    blackhole: (direction) => onEach((proxy) => proxy.blackhole(direction))(),
    cutBeforeReply: async (match) => {
      await Promise.all(proxies.map((proxy) => proxy.cutBeforeReply(match)));
    },
    holdBack(match) {
      const held = proxies.map((proxy) => proxy.holdBack(match));
      const caught = Promise.all(held.map((one) => one.caught)).then(() => {});
      const serverClosed = Promise.all(held.map((one) => one.serverClosed)).then(() => {});
      // Only a test that awaits them needs to hear.
      caught.catch(() => {});
      serverClosed.catch(() => {});
      return {
        caught,
        async deliver() {
          await Promise.all(held.map((one) => one.deliver()));
        },
        serverClosed,
      };
    },
    refuse: onEach((proxy) => proxy.refuse()),
    dropAll: onEach((proxy) => proxy.dropAll()),
    async close() {
      await Promise.all(proxies.map((proxy) => proxy.close()));
    },
  };
}
