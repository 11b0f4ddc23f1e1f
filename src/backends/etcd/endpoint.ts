import { isIP } from "node:net";
import { checkServerIdentity, type PeerCertificate } from "node:tls";
import { nowMs } from "../../core/clock.js";
import { closedError } from "./errors.js";
import { type Client, CONNECTIVITY, type Grpc, loadLibrary } from "./library.js";
import type { EtcdSettings } from "./options.js";

/** What is sent as the server's name in place of its address: a name that no server has (RFC 2606). */
const NO_NAME = "address.invalid";

/** One server. Its connection is made on first use, and anew after it was found silent. */
export class Endpoint {
  readonly address: string;
  readonly #host: string;
  readonly #settings: EtcdSettings;
  #client: Client | undefined;
  /** When its connection was begun, or was last seen to work. */
  #aliveMs = -Infinity;
  #closed = false;

  constructor(host: string, port: number, settings: EtcdSettings) {
    this.address = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    this.#host = host;
    this.#settings = settings;
  }

  async client(): Promise<Client> {
    const { grpc } = await loadLibrary();
    if (this.#closed) throw closedError();
    if (this.#client === undefined) this.heard();
    this.#client ??= new grpc.Client(this.address, this.#credentials(grpc), {
      "grpc.initial_reconnect_backoff_ms": 50,
      "grpc.max_reconnect_backoff_ms": 1_000,
      // etcd hangs up on whoever asks more often than every 5 s.
      "grpc.keepalive_time_ms": 10_000,
      "grpc.keepalive_timeout_ms": 5_000,
      // What a session keeps may be many keys; they are ours.
      "grpc.max_receive_message_length": -1,
      // Connections are not shared with other backends of this process.
      "grpc.use_local_subchannel_pool": 1,
      // It would send the address as the server's name, which TLS does not allow (RFC 6066) and Node 26 refuses.
      ...(this.#byAddress ? { "grpc.ssl_target_name_override": NO_NAME } : undefined),
    });
    return this.#client;
  }

  /** Whether it is known by then if a connection can be made. It goes on trying: one that is slow is found ready later. */
  async settles(untilMs: number): Promise<boolean> {
    const channel = (await this.client()).getChannel();
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
    this.#aliveMs = nowMs();
  }

  /** Whether nothing was heard since then: a new connection is made. Else it is slow, and that would not help. */
  renewIfSilent(sinceMs: number): boolean {
    if (this.#aliveMs > sinceMs) return false;
    this.#client?.close();
    this.#client = undefined;
    return true;
  }

  close(): void {
    this.#closed = true;
    this.#client?.close();
  }

  #credentials(grpc: Grpc): object {
    const { tls } = this.#settings;
    if (tls === undefined) return grpc.credentials.createInsecure();
    const { ca, key, cert, verify } = tls;
    const check = this.#byAddress ? { checkServerIdentity: this.#isItsAddress } : {};
    return grpc.credentials.createSsl(ca ?? null, key ?? null, cert ?? null, {
      ...(verify === "full" ? check : { checkServerIdentity: () => undefined }),
      rejectUnauthorized: verify !== "nothing",
    });
  }

  get #byAddress(): boolean {
    return isIP(this.#host) !== 0;
  }

  /** Whatever name was sent: the certificate has to be for the address that the URL names. */
  readonly #isItsAddress = (_name: string, certificate: PeerCertificate) =>
    checkServerIdentity(this.#host, certificate);
}
