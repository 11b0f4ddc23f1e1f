import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export type Direction = "to-server" | "to-client";
/** Sees one chunk as it was read from the client's socket: bytes only, so ciphertext under TLS. */
export type ChunkMatch = (data: Buffer) => boolean;

export interface FaultProxyOptions {
  target: { host: string; port: number };
  /** The port to listen on; a free one by default. */
  port?: number;
}

/** A request that is under way for as long as the test likes. */
export interface HeldBack {
  /** Resolves when a chunk was caught. */
  readonly caught: Promise<void>;
  /** Writes the caught chunk to the server; resolves when the server answered, or after 200 ms. */
  deliver(): Promise<void>;
}

/** A wire between a client and a server that breaks on request. It knows bytes, and no protocol. */
export interface FaultProxy {
  readonly host: string;
  readonly port: number;
  /** How many clients are connected. */
  readonly connections: number;
  /**
   * Makes the wire plain again: delayed bytes arrive at once, and faults that still wait for their chunk are
   * called off (their promises reject). What holdBack() caught stays held. A connection that lost bytes in a
   * blackhole is destroyed, since TCP never loses bytes in the middle of a stream.
   */
  heal(): void;
  /** Delays every chunk that is read from now on, in order. Replaces the delay set before. */
  delay(delay: { toServerMs?: number; toClientMs?: number }): void;
  /** Swallows bytes and goodbyes silently while the sockets stay open. Replaces the blackhole set before. */
  blackhole(direction: Direction | "both"): void;
  /**
   * Forwards the next request that matches, and destroys its connection in place of passing the reply on.
   * Resolves when that was done. The first bytes to come back count as the reply: do not pipeline before it.
   */
  cutBeforeReply(match?: ChunkMatch): Promise<void>;
  /**
   * Holds back the next chunk to the server that matches, and all that follows it on its connection. The
   * client may give up and close meanwhile (dropAll() does it for the client): deliver() still delivers.
   */
  holdBack(match?: ChunkMatch): HeldBack;
  /** Destroys all connections, and each new one as soon as it comes, until heal(). */
  refuse(): void;
  /** Destroys the connections of this moment. */
  dropAll(): void;
  close(): Promise<void>;
}

/** What travels: bytes, the sender's "no more from me" (FIN), or the news that its socket is closed. */
type Piece = Buffer | "end" | "gone";

interface Trap<Sprung> {
  match: ChunkMatch;
  sprung: Promise<Sprung>;
  spring(value: Sprung): void;
  callOff(reason: string): void;
}

/** The faults in force, shared by all connections of one proxy. */
interface Wire {
  delayMs: Record<Direction, number>;
  blackhole: Direction | "both" | undefined;
  refusing: boolean;
  cuts: Trap<void>[];
  holds: Trap<() => Promise<void>>[];
}

const ANSWER_WAIT_MS = 200;

function setTrap<Sprung>(traps: Trap<Sprung>[], match: ChunkMatch = () => true): Trap<Sprung> {
  let spring: (value: Sprung) => void = () => {};
  let callOff: (reason: string) => void = () => {};
  const sprung = new Promise<Sprung>((resolve, reject) => {
    spring = resolve;
    callOff = (reason) => reject(new Error(reason));
  });
  // Whoever awaits the promise is told of the failure; a test that does not care must not crash over it.
  sprung.catch(() => {});
  const trap = { match, sprung, spring, callOff };
  traps.push(trap);
  return trap;
}

function takeTrap<Sprung>(traps: Trap<Sprung>[], chunk: Buffer): Trap<Sprung> | undefined {
  const index = traps.findIndex((trap) => trap.match(chunk));
  return index < 0 ? undefined : traps.splice(index, 1)[0];
}

/**
 * One direction of one connection. Pieces leave in the order they came, each no sooner than it is due.
 * There is no back pressure: what is kept back lives in memory, and tests move kilobytes.
 */
class Lane {
  #queue: { piece: Piece; dueAt: number }[] = [];
  #timer: NodeJS.Timeout | undefined;
  stopped = false;

  constructor(private readonly leave: (piece: Piece) => void) {}

  push(piece: Piece, delayMs: number): void {
    this.#queue.push({ piece, dueAt: performance.now() + delayMs });
    this.pump();
  }

  pump(): void {
    clearTimeout(this.#timer);
    while (!this.stopped) {
      const next = this.#queue[0];
      if (next === undefined) return;
      const wait = next.dueAt - performance.now();
      if (wait > 0) {
        this.#timer = setTimeout(() => this.pump(), wait);
        return;
      }
      this.#queue.shift();
      this.leave(next.piece);
    }
  }

  hurry(): void {
    for (const item of this.#queue) item.dueAt = 0;
    this.pump();
  }

  discard(): void {
    clearTimeout(this.#timer);
    this.#queue = [];
  }
}

class Connection {
  readonly #toServer = new Lane((piece) => this.#leaveToServer(piece));
  readonly #toClient = new Lane((piece) => this.#leaveToClient(piece));
  #cut: Trap<void> | undefined;
  lostBytes = false;

  constructor(
    private readonly wire: Wire,
    private readonly client: Socket,
    private readonly server: Socket,
    onClosed: () => void,
  ) {
    const ends = [
      { socket: client, lane: this.#toServer, direction: "to-server" },
      { socket: server, lane: this.#toClient, direction: "to-client" },
    ] as const;
    for (const { socket, lane, direction } of ends) {
      socket.on("data", (chunk: Buffer) => {
        if (socket === server && this.#cut) this.#cutNow(this.#cut);
        else lane.push(chunk, wire.delayMs[direction]);
      });
      socket.on("end", () => lane.push("end", wire.delayMs[direction]));
      // "close" always follows, and it is what the other side is told.
      socket.on("error", () => {});
      socket.on("close", () => {
        lane.push("gone", wire.delayMs[direction]);
        if (!client.destroyed || !server.destroyed) return;
        this.#toServer.discard();
        this.#toClient.discard();
        this.#cut?.callOff("the connection ended before the server replied");
        onClosed();
      });
    }
  }

  get hasClient(): boolean {
    return !this.client.readableEnded && !this.client.destroyed;
  }

  hurry(): void {
    this.#toServer.hurry();
    this.#toClient.hurry();
  }

  /** Ends both sockets; but what is held back keeps the server's one, and closes it once delivered. */
  drop(): void {
    this.client.destroy();
    if (!this.#toServer.stopped) this.server.destroy();
  }

  destroy(): void {
    this.client.destroy();
    this.server.destroy();
  }

  #cutNow(cut: Trap<void>): void {
    this.#cut = undefined;
    this.client.destroy();
    // Not destroy(): the request must reach the server whole, even if it answers before it read it all.
    this.server.destroySoon();
    cut.spring();
  }

  #leaveToServer(piece: Piece): void {
    if (Buffer.isBuffer(piece)) {
      const hold = takeTrap(this.wire.holds, piece);
      if (hold) {
        this.#toServer.stopped = true;
        hold.spring(() => this.#deliver(piece));
        return;
      }
    }
    if (!this.#swallowed("to-server")) this.#sendToServer(piece);
  }

  #leaveToClient(piece: Piece): void {
    if (!this.client.destroyed && !this.#swallowed("to-client")) send(this.client, piece);
  }

  #swallowed(direction: Direction): boolean {
    const swallowed = this.wire.blackhole === direction || this.wire.blackhole === "both";
    this.lostBytes ||= swallowed;
    return swallowed;
  }

  #sendToServer(piece: Piece): void {
    if (Buffer.isBuffer(piece)) this.#cut ??= takeTrap(this.wire.cuts, piece);
    send(this.server, piece);
  }

  async #deliver(chunk: Buffer): Promise<void> {
    if (this.server.readableEnded || this.server.destroyed) {
      throw new Error("the server has closed the connection of the chunk that was held back");
    }
    this.#sendToServer(chunk);
    // The client's goodbye may be next in the lane. Passed on at once, it could hide the answer from us.
    const answered = once(this.server, "data", { signal: AbortSignal.timeout(ANSWER_WAIT_MS) });
    // Silence, or a connection that broke instead: both end the wait, and neither is a mistake of the test.
    await answered.catch(() => {});
    this.#toServer.stopped = false;
    this.#toServer.pump();
  }
}

function send(socket: Socket, piece: Piece): void {
  if (piece === "end") socket.end();
  else if (piece === "gone") socket.destroySoon();
  else socket.write(piece);
}

/** Starts a proxy on 127.0.0.1 through which a client can be cut off from a server in every mean way. */
export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const wire: Wire = {
    delayMs: { "to-server": 0, "to-client": 0 },
    blackhole: undefined,
    refusing: false,
    cuts: [],
    holds: [],
  };
  const connections = new Set<Connection>();
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
  });
  listener.listen(options.port ?? 0, "127.0.0.1");
  await once(listener, "listening");

  return {
    host: "127.0.0.1",
    port: (listener.address() as AddressInfo).port,
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
    cutBeforeReply: (match) => setTrap(wire.cuts, match).sprung,
    holdBack(match) {
      const { sprung } = setTrap(wire.holds, match);
      let delivered: Promise<void> | undefined;
      const caught = sprung.then(() => {});
      caught.catch(() => {}); // as in setTrap(): only who awaits it needs to hear
      return {
        caught,
        // Asked for twice it is still delivered once, as it is one packet.
        deliver: () => (delivered ??= sprung.then((deliver) => deliver())),
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
