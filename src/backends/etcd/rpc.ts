import { nowMs, wasFrozen } from "../../core/clock.js";
import { backendError, type LockError } from "../../core/errors.js";
import { describeHosts } from "../../engine-kit/url.js";
import { Endpoint } from "./endpoint.js";
import { CODE, closedError, codeOf, etcdError, isBroken, isVoid, wasNotReached } from "./errors.js";
import { type KeepAliveStream, loadLibrary, type Metadata, methodOf, type Service } from "./library.js";
import type {
  LeaseResponse,
  LeaseRest,
  Long,
  RangeRequest,
  RangeResponse,
  TxnRequest,
  TxnResponse,
} from "./messages.js";
import { checkGrant, checkLease, checkRange, checkTxn } from "./messages.js";
import type { EtcdSettings } from "./options.js";
import { WatchStream } from "./watcher.js";

/** A server that has lost its leader ends the stream instead of keeping silent on it. */
const WITH_LEADER = { hasleader: "true" };

/**
 * The calls that are used, each bounded in time. One server is asked until it fails; then the next one. All
 * calls are idempotent, but only one that certainly was not executed is sent on by itself; and, once, one that changes
 * nothing and whose connection broke: the server, or what is in between, may have closed an idle one long ago.
 */
export class EtcdRpc {
  readonly #settings: EtcdSettings;
  readonly #where: string;
  readonly #endpoints: readonly Endpoint[];
  readonly #onSilence: () => void;
  readonly #login: Login | undefined;
  #at = 0;
  #closed = false;

  /** `onSilence`: a server did not answer, so a stream that is open to it should be opened anew. */
  constructor(settings: EtcdSettings, onSilence: () => void) {
    this.#settings = settings;
    this.#where = describeHosts(settings.address);
    this.#onSilence = onSilence;
    this.#endpoints = settings.address.hosts.map((host) => new Endpoint(host, settings));
    const { username, password } = settings.address;
    if (username === undefined || password === undefined) return;
    const user = { name: username, password };
    this.#login = new Login(
      async () => (await this.#call<{ token: string }>("Auth", "Authenticate", user, "login")).token,
    );
  }

  async range(request: RangeRequest): Promise<RangeResponse> {
    return checkRange(await this.#call("KV", "Range", request, "repeatable"));
  }

  async txn(request: TxnRequest): Promise<TxnResponse> {
    return checkTxn(await this.#call("KV", "Txn", request), request);
  }

  async grantLease(ttlS: number): Promise<LeaseResponse> {
    // One that is granted twice ends by itself.
    return checkGrant(await this.#call("Lease", "LeaseGrant", { TTL: ttlS }, "repeatable"));
  }

  revokeLease(id: Long): Promise<unknown> {
    return this.#call("Lease", "LeaseRevoke", { ID: id });
  }

  async timeToLive(id: Long, keys = false): Promise<LeaseRest> {
    const asked = this.#call<LeaseRest>("Lease", "LeaseTimeToLive", { ID: id, keys }, "repeatable");
    return checkLease(await asked, id);
  }

  /** One question on a stream of its own, so that an answer can only be the answer to it. */
  async keepAlive(id: Long): Promise<LeaseResponse> {
    const untilMs = nowMs() + this.#settings.timeoutMs;
    return this.#keepAlive(id).catch((failure: unknown) => {
      if (!isBroken((failure as LockError).cause) && !wasFrozen(untilMs)) throw failure;
      return this.#keepAlive(id);
    });
  }

  async #keepAlive(id: Long): Promise<LeaseResponse> {
    const endpoint = this.#endpoint();
    const token = this.#login?.token();
    const sentMs = nowMs();
    try {
      const stream = await this.#keepAliveStream(endpoint, token);
      const answer = await new Promise<LeaseResponse>((resolve, reject) => {
        stream.once("data", (answer: LeaseResponse) => {
          endpoint.heard();
          resolve(answer);
          stream.end();
        });
        stream.once("end", () => reject(new Error("the server ended the keep-alive without an answer")));
        // Stays when the answer is there: a stream that breaks later must not crash the program.
        stream.on("error", reject);
        stream.write({ ID: id });
      });
      return checkLease(answer, id);
    } catch (error) {
      throw this.#failed(endpoint, error, token, sentMs);
    }
  }

  async openWatch() {
    const endpoint = this.#endpoint();
    const token = this.#login?.token();
    const sentMs = nowMs();
    try {
      const method = methodOf(await loadLibrary(), "Watch", "Watch");
      const headers = { ...WITH_LEADER, ...(token === undefined ? undefined : { token: await token }) };
      const stream = new WatchStream(endpoint.watchTarget(headers), method);
      /** It broke: the server at its other end is not asked next. */
      const broke = () => this.#moveFrom(endpoint);
      /** What was asked on it is refused, perhaps because of its token: the next one gets a new one. */
      const refused = () => this.#login?.forget(token);
      return { stream, broke, refused };
    } catch (error) {
      throw this.#failed(endpoint, error, token, sentMs);
    }
  }

  close(): void {
    this.#closed = true;
    for (const endpoint of this.#endpoints) endpoint.close();
  }

  async #call<T>(
    service: Service,
    name: string,
    request: object,
    kind: "repeatable" | "once" | "login" = "once",
  ): Promise<T> {
    const { timeoutMs } = this.#settings;
    let untilMs = nowMs() + timeoutMs;
    let renewed = false;
    let repeats = kind === "repeatable" ? 1 : 0;
    for (let attempt = 1; ; attempt++) {
      const endpoint = await this.#reachable();
      const token = kind === "login" ? undefined : this.#login?.token();
      const sentMs = nowMs();
      try {
        const answer = await this.#unary(endpoint, [service, name], request, token, untilMs);
        endpoint.heard();
        return answer as T;
      } catch (error) {
        const failure = this.#failed(endpoint, error, token, sentMs);
        if (isVoid(error) && token !== undefined && !renewed) renewed = true;
        else if (repeats > 0 && (isBroken(error) || wasFrozen(untilMs))) {
          repeats--;
          if (wasFrozen(untilMs)) untilMs = nowMs() + timeoutMs;
        } else if (!wasNotReached(error) || attempt >= this.#endpoints.length || nowMs() >= untilMs)
          throw failure;
      }
    }
  }

  async #unary(
    endpoint: Endpoint,
    [service, name]: readonly [Service, string],
    request: object,
    token: Token | undefined,
    untilMs: number,
  ): Promise<object> {
    const method = methodOf(await loadLibrary(), service, name);
    const metadata = await this.#metadata(token);
    const client = await endpoint.reached(untilMs);
    // gRPC counts in wall-clock time; a jump of it may end one call too early or too late.
    const deadline = Date.now() + Math.max(1, untilMs - nowMs());
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        method.path,
        method.requestSerialize,
        method.responseDeserialize,
        request,
        metadata,
        { deadline },
        (error, answer) => (error === null ? resolve(answer) : reject(error)),
      );
    });
  }

  async #keepAliveStream(endpoint: Endpoint, token: Token | undefined): Promise<KeepAliveStream> {
    const method = methodOf(await loadLibrary(), "Lease", "LeaseKeepAlive");
    const metadata = await this.#metadata(token);
    for (const [name, value] of Object.entries(WITH_LEADER)) metadata.set(name, value);
    const client = await endpoint.reached(nowMs() + this.#settings.timeoutMs);
    return client.makeBidiStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      metadata,
      { deadline: Date.now() + this.#settings.timeoutMs },
    ) as KeepAliveStream;
  }

  async #metadata(token: Token | undefined): Promise<Metadata> {
    const { grpc } = await loadLibrary();
    const metadata = new grpc.Metadata();
    if (token !== undefined) metadata.set("token", await token);
    return metadata;
  }

  /** After a failure the next server is asked; one that did not answer gets a new connection. */
  #failed(endpoint: Endpoint, error: unknown, token: Token | undefined, sentMs: number): LockError {
    const code = codeOf(error);
    if (isVoid(error)) this.#login?.forget(token);
    if (code === CODE.unavailable) {
      this.#moveFrom(endpoint);
      endpoint.dropUnlessReady();
    }
    if (code !== CODE.deadlineExceeded) return etcdError(error, this.#where);
    this.#moveFrom(endpoint);
    if (endpoint.renewIfSilent(sentMs)) this.#onSilence();
    return backendError(`etcd at ${endpoint.address}: no answer within ${this.#settings.timeoutMs} ms`, {
      retryable: true,
    });
  }

  /** A server that is dead may not even refuse, so each gets its share of the time. */
  async #reachable(): Promise<Endpoint> {
    const shareMs = this.#settings.timeoutMs / this.#endpoints.length;
    for (let others = this.#endpoints.length - 1; others > 0; others--) {
      const endpoint = this.#endpoint();
      if (await endpoint.settles(nowMs() + shareMs)) return endpoint;
      this.#moveFrom(endpoint);
    }
    return this.#endpoint();
  }

  #moveFrom(endpoint: Endpoint): void {
    if (this.#endpoints[this.#at] === endpoint) this.#at = (this.#at + 1) % this.#endpoints.length;
  }

  #endpoint(): Endpoint {
    const endpoint = this.#endpoints[this.#at];
    if (this.#closed || endpoint === undefined) throw closedError();
    return endpoint;
  }
}

/** A token of the servers, once it is there. */
type Token = Promise<string>;

/** A user's token, shared by all calls of a connection: the servers take their time to check a password. */
class Login {
  readonly #authenticate: () => Token;
  #token: Token | undefined;

  constructor(authenticate: () => Token) {
    this.#authenticate = authenticate;
  }

  token(): Token {
    if (this.#token !== undefined) return this.#token;
    const token = this.#authenticate();
    this.#token = token;
    token.catch(() => this.forget(token));
    return token;
  }

  /** That one is no longer good; a call that was told so before may have got a newer one already. */
  forget(token: Token | undefined): void {
    if (this.#token === token) this.#token = undefined;
  }
}
