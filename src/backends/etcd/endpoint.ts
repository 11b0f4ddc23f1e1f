import { readFileSync } from "node:fs";
import { connect as connectTcp, isIP } from "node:net";
import { checkServerIdentity, connect as connectTls, type PeerCertificate } from "node:tls";
import { nowMs } from "../../core/clock.js";
import { SingleFlight } from "../../core/concurrency.js";
import { AnswerTimer } from "../../engine-kit/request-timeout.js";
import { socketTls } from "../../engine-kit/tls.js";
import type { Host } from "../../engine-kit/url.js";
import { CODE, closedError } from "./errors.js";
import { type Client, CONNECTIVITY, type Grpc, loadLibrary } from "./library.js";
import type { EtcdSettings } from "./options.js";
import type { WatchTarget } from "./watcher.js";

/** What is sent as the server's name in place of its address: a name that no server has (RFC 2606). */
const NO_NAME = "address.invalid";

const FIRST_REST_MS = 50;
const LONGEST_REST_MS = 1_000;

/** One server. Its connection is made on first use, and anew after it was found silent. */
export class Endpoint {
  readonly address: string;
  readonly #at: Host;
  readonly #settings: EtcdSettings;
  #client: Client | undefined;
  /** When its connection was begun, or was last seen to work. */
  #aliveMs = -Infinity;
  #closed = false;
  readonly #probing = new SingleFlight<void>();
  /** Why no connection could be made last, until when none is tried, and for how long after the next failure. */
  #failure: unknown;
  #restUntilMs = -Infinity;
  #restMs = 0;

  constructor(at: Host, settings: EtcdSettings) {
    const { host, port } = at;
    this.address = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    this.#at = at;
    this.#settings = settings;
  }

  async client(): Promise<Client> {
    const { grpc } = await loadLibrary();
    if (this.#closed) throw closedError();
    if (this.#client === undefined) this.heard();
    this.#client ??= new grpc.Client(this.address, this.#credentials(grpc), {
      "grpc.initial_reconnect_backoff_ms": 50,
      "grpc.max_reconnect_backoff_ms": 1_000,
      // etcd hangs up on a client that asks more often than every 5 s.
      "grpc.keepalive_time_ms": 10_000,
      "grpc.keepalive_timeout_ms": 5_000,
      // What a session keeps may be many keys; they are ours.
      "grpc.max_receive_message_length": -1,
      // The watches, which do not go through this library, would not find a proxy.
      "grpc.enable_http_proxy": 0,
      // Connections are not shared with other backends of this process.
      "grpc.use_local_subchannel_pool": 1,
      // It would send the address as the server's name, which TLS does not allow (RFC 6066) and Node 26 refuses.
      ...(this.#byAddress ? { "grpc.ssl_target_name_override": NO_NAME } : undefined),
    });
    return this.#client;
  }

  /** Where and how the stream of watches is opened, in the same way as the library does it. */
  watchTarget(headers: WatchTarget["headers"]): WatchTarget {
    const { tls, timeoutMs } = this.#settings;
    if (this.#closed) throw closedError();
    const at = this.#at;
    if (tls === undefined) {
      const open = () => connectTcp(at);
      return { origin: `http://${this.address}`, open, timeoutMs, headers };
    }
    const trusted = tls.ca === undefined ? { ca: libraryRoots() } : {};
    // By itself, http2 of older versions of Node.js sends an address as the server's name, which TLS does not allow.
    const open = () => connectTls({ ...at, ...socketTls(tls, at.host), ...trusted, ALPNProtocols: ["h2"] });
    return { origin: `https://${this.address}`, open, timeoutMs, headers };
  }

  /** A client that is connected, or whose server takes connections. */
  async reached(untilMs: number): Promise<Client> {
    if (this.#state() === CONNECTIVITY.ready) return this.client();
    if (nowMs() < this.#restUntilMs) throw this.#failure;
    await this.#probing.run(() => this.#probe(untilMs));
    return this.client();
  }

  /** After the second failure in a row the server is left alone for a while, and ever longer. */
  async #probe(untilMs: number): Promise<void> {
    try {
      await probeTcp(this.#at, Math.max(1, untilMs - nowMs()));
    } catch (error) {
      this.#failure = error;
      this.#restUntilMs = nowMs() + this.#restMs;
      this.#restMs = Math.min(Math.max(2 * this.#restMs, FIRST_REST_MS), LONGEST_REST_MS);
      throw error;
    }
  }

  /**
   * Whether its connection stands by then, or has failed in a way that a request is to tell. Connecting goes on
   * meanwhile: a server that is slow is found ready later.
   */
  async settles(untilMs: number): Promise<boolean> {
    const client = await this.reached(untilMs).catch(() => undefined);
    if (client === undefined) return false;
    const channel = client.getChannel();
    for (;;) {
      const state = channel.getConnectivityState(true);
      if (state !== CONNECTIVITY.idle && state !== CONNECTIVITY.connecting) return true;
      const changed = await new Promise<boolean>((resolve) => {
        const deadline = Date.now() + Math.max(1, untilMs - nowMs());
        channel.watchConnectivityState(state, deadline, (error) => resolve(error === undefined));
      });
      if (!changed) return false;
    }
  }

  heard(): void {
    this.#restMs = 0;
    this.#aliveMs = nowMs();
  }

  /** Makes a new connection, and says so, if nothing was heard since then. To a slow server that would not help. */
  renewIfSilent(sinceMs: number): boolean {
    if (this.#aliveMs > sinceMs) return false;
    this.#client?.close();
    this.#client = undefined;
    return true;
  }

  /** A request has failed: the library is not left to connect again by itself. */
  dropUnlessReady(): void {
    if (this.#state() === CONNECTIVITY.ready) return;
    this.#client?.close();
    this.#client = undefined;
  }

  #state(): number | undefined {
    return this.#client?.getChannel().getConnectivityState(false);
  }

  close(): void {
    this.#closed = true;
    this.#client?.close();
  }

  #credentials(grpc: Grpc): object {
    const { tls } = this.#settings;
    if (tls === undefined) return grpc.credentials.createInsecure();
    const { ca, key, cert, verify } = tls;
    // Whatever name was sent: the certificate has to be for the address that the URL names.
    const isItsAddress = (_: string, found: PeerCertificate) => checkServerIdentity(this.#at.host, found);
    const check = this.#byAddress ? { checkServerIdentity: isItsAddress } : {};
    return grpc.credentials.createSsl(ca ?? null, key ?? null, cert ?? null, {
      ...(verify === "full" ? check : { checkServerIdentity: () => undefined }),
      rejectUnauthorized: verify !== "nothing",
    });
  }

  get #byAddress(): boolean {
    return isIP(this.#at.host) !== 0;
  }
}

/** The authorities that the library trusts where none is named. */
function libraryRoots(): Buffer | undefined {
  const file = process.env.GRPC_DEFAULT_SSL_ROOTS_FILE_PATH;
  return file === undefined ? undefined : readFileSync(file);
}

/**
 * Whether anything takes connections there; rejects with an error such as the library's if not. The library itself
 * goes on for minutes if a machine does not answer at all, and keeps the process alive meanwhile.
 */
function probeTcp(at: Host, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connectTcp(at);
    const end = (settle: () => void) => {
      timer.stop();
      socket.destroy();
      settle();
    };
    const timer = new AnswerTimer(timeoutMs, () => {
      end(() => reject(failure(CODE.deadlineExceeded, "the server does not take the connection")));
    });
    socket.once("connect", () => end(resolve));
    // Stays: a socket that is destroyed may still have something to complain of.
    socket.on("error", (error) => {
      end(() => reject(failure(CODE.unavailable, `No connection established: ${textOf(error)}`)));
    });
  });
}

/** Of several addresses the first. */
function textOf(error: Error): string {
  const [first] = error instanceof AggregateError ? error.errors : [];
  return first instanceof Error ? first.message : error.message;
}

function failure(code: number, details: string): Error {
  return Object.assign(new Error(details), { code, details });
}
