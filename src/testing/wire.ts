import { once } from "node:events";
import type { Socket } from "node:net";
import { startTimer, stopTimer } from "../core/timer.js";

export type Direction = "to-server" | "to-client";
/** Sees one chunk as it was read from the client's socket: bytes only, so ciphertext under TLS. */
export type ChunkMatch = (data: Buffer) => boolean;

/** What travels: bytes, the sender's "no more from me" (FIN), or the news that its socket is closed. */
type Piece = Buffer | "end" | "gone";

export interface Trap<Sprung> {
  match: ChunkMatch;
  sprung: Promise<Sprung>;
  /** A chunk has matched: from here on there is no limit to the time. */
  matched(): void;
  spring(value: Sprung): void;
  callOff(reason: string): void;
}

/** The faults in force, shared by all connections of one proxy. */
export interface Wire {
  delayMs: Record<Direction, number>;
  blackhole: Direction | "both" | undefined;
  refusing: boolean;
  cuts: Trap<void>[];
  holds: Trap<HeldChunk>[];
}

/** A chunk that was kept from the server. */
export interface HeldChunk {
  deliver(): Promise<void>;
  /** Resolves when the server has closed the connection that the chunk belongs to. */
  readonly serverClosed: Promise<void>;
}

const ANSWER_WAIT_MS = 200;

/** A trap that no chunk matches within that time fails, and says why: a test would hang, and say nothing. */
export function setTrap<Sprung>(
  traps: Trap<Sprung>[],
  withinMs: number,
  match: ChunkMatch = () => true,
): Trap<Sprung> {
  let spring: (value: Sprung) => void = () => {};
  let callOff: (reason: string) => void = () => {};
  const sprung = new Promise<Sprung>((resolve, reject) => {
    spring = resolve;
    callOff = (reason) => reject(new Error(reason));
  });
  // A test that awaits the promise is told of the failure; one that does not must not crash over it.
  sprung.catch(() => {});
  let chunks = 0;
  const counted: ChunkMatch = (data) => {
    chunks++;
    return match(data);
  };
  const trap = { match: counted, sprung, matched: () => stopTimer(timer), spring, callOff };
  const timer = startTimer(() => {
    const index = traps.indexOf(trap);
    if (index < 0) return;
    traps.splice(index, 1);
    callOff(
      `no data that matches was sent through the proxy within ${withinMs / 1_000} s (${chunks} chunks to the server did not match): a matcher needs what it looks for, such as the name of the lock, literally in the bytes, neither compressed nor encrypted nor split`,
    );
  }, withinMs).unref();
  traps.push(trap);
  return trap;
}

function takeTrap<Sprung>(traps: Trap<Sprung>[], chunk: Buffer): Trap<Sprung> | undefined {
  const index = traps.findIndex((trap) => trap.match(chunk));
  const [trap] = index < 0 ? [] : traps.splice(index, 1);
  trap?.matched();
  return trap;
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
        this.#timer = startTimer(() => this.pump(), wait);
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

/** A client and a server, with the faults of the wire between them. */
export class Connection {
  readonly #toServer = new Lane((piece) => this.#leaveToServer(piece));
  readonly #toClient = new Lane((piece) => this.#leaveToClient(piece));
  readonly #serverClosed: Promise<void>;
  #cut: Trap<void> | undefined;
  lostBytes = false;

  constructor(
    private readonly wire: Wire,
    private readonly client: Socket,
    private readonly server: Socket,
    onClosed: () => void,
  ) {
    this.#serverClosed = new Promise((resolve) => {
      server.once("end", resolve).once("close", () => resolve());
    });
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
        hold.spring({ deliver: () => this.#deliver(piece), serverClosed: this.#serverClosed });
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
