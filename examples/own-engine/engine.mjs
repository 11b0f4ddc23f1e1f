// An engine of your own, on any store that can compare and set one value: here a Redis server that is used as a store
// of texts. The queue of a name is one value. An operation loads it, makes one step of `Queue`, and stores the outcome if
// no other process has changed it meanwhile; else it begins again. `Queue` is the rule, so nothing is decided here.
import { createHash } from "node:crypto";
import { Redis } from "ioredis";
import { Backoff, backendError, FifoMutex, nowMs, parsed, plainText, Queue } from "locktender/engine-kit";

const TIMEOUT_MS = 1_500;
const FORCED_KEPT_MS = 60_000;

/** The server's clock decides expiry, so it is read together with the value. */
const LOAD = `local time = redis.call('TIME')
return { time[1], time[2], redis.call('GET', KEYS[1]) or '' }`;

/** Stores the new value for as long as it is needed, and tells the waiters that it lets in. */
const SWAP = `if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
for at = 5, #ARGV do redis.call('PUBLISH', ARGV[4], ARGV[at]) end
return 1`;

const TRAITS = {
  engine: "compare-and-set",
  reach: "network",
  fencing: true,
  queueing: true,
  notifications: true,
  ttl: "claim",
  expiryGranularityMs: 0,
  caveats: ["A server that loses its memory loses its locks."],
};

/** `retentionMs`: for how long an idle name keeps its last ticket, in case the server's clock is set back. */
export function compareAndSet({ url, prefix = "own-engine", retentionMs = 60_000 }) {
  return new CompareAndSetBackend(url, prefix, retentionMs);
}

class CompareAndSetBackend {
  traits = TRAITS;
  #url;
  #prefix;
  #retentionMs;
  #client;
  #subscriber;
  #watchers = new Map();
  #turns = Array.from({ length: 256 }, () => new FifoMutex());
  #closing = new AbortController();

  constructor(url, prefix, retentionMs) {
    this.#url = url;
    this.#prefix = prefix;
    this.#retentionMs = retentionMs;
  }

  claim(request) {
    return this.#step(request.name, (state, atMs, notify) =>
      state.queue.claim(
        request,
        atMs,
        notify,
        () => state.nextTicket(atMs),
        () => state.goneOf(request.id),
      ),
    );
  }

  renew(claims) {
    const renew = ({ name, id, ticket, ttlMs }) =>
      this.#step(name, (state, atMs) => state.queue.renew(id, ticket, ttlMs, atMs) ?? state.goneOf(id));
    return Promise.all(claims.map((claim) => renew(claim).catch((error) => ({ state: "unknown", error }))));
  }

  release({ name, id }, ending) {
    const force = typeof ending === "object" ? ending : undefined;
    return this.#step(name, (state, atMs, notify) => {
      const released = state.queue.release(id, ending !== undefined, atMs, notify, force);
      if (released && force !== undefined) state.forced.push([id, force, atMs + FORCED_KEPT_MS]);
      return released;
    });
  }

  async *list(query) {
    const names = "name" in query ? [query.name] : await this.#names(query.prefix);
    for (const name of names) {
      const { state, atMs } = await this.#load(name);
      const { result: claims } = state.queue.step(atMs, () => state.queue.records(atMs));
      if (claims.length > 0)
        yield { name, capacity: state.queue.capacity, claims: claims.slice(0, query.limit) };
    }
  }

  watch({ id }, notify) {
    this.#watchers.set(id, notify);
    this.#subscriber ??= this.#subscribe();
    return () => void this.#watchers.delete(id);
  }

  async close() {
    this.#closing.abort(backendError("this connection is closed.", { retryable: false }));
    this.#watchers.clear();
    this.#client?.disconnect();
    this.#subscriber?.disconnect();
  }

  /** Steps at one name follow each other in this process: together, they would only be in each other's way. */
  async #step(name, act) {
    const turns = this.#turns[createHash("sha256").update(name).digest()[0] ?? 0];
    const end = await turns.take(TIMEOUT_MS, undefined, () => this.#closing.signal);
    if (end === undefined) throw backendError("the store is too slow.", { name, retryable: true });
    return this.#swap(name, act).finally(end);
  }

  /** One atomic step. An attempt that another process was faster than is repeated after a moment. */
  async #swap(name, act) {
    const backoff = new Backoff(1, 20);
    for (const untilMs = nowMs() + TIMEOUT_MS; nowMs() < untilMs; ) {
      const { state, text, atMs } = await this.#load(name);
      const { result, notify } = state.queue.step(atMs, (tell) => act(state, atMs, tell));
      const next = state.write(atMs);
      const messages = notify.map((to) =>
        JSON.stringify(to, (_, value) => (typeof value === "bigint" ? `${value}` : value)),
      );
      const keptMs = Math.ceil(Math.max(state.longestMs(atMs), this.#retentionMs));
      const swapped =
        (next === text && messages.length === 0) ||
        (await this.#send("eval", SWAP, 1, this.#key(name), text, next, keptMs, this.#channel, ...messages));
      if (swapped) return result;
      await new Promise((resolve) => setTimeout(resolve, backoff.failedMs() * Math.random()));
    }
    throw backendError("other processes were faster, again and again.", { name, retryable: true });
  }

  async #load(name) {
    const [seconds, micros, text] = await this.#send("eval", LOAD, 1, this.#key(name));
    return { state: new NameState(name, text), text, atMs: Number(seconds) * 1_000 + Number(micros) / 1_000 };
  }

  async #names(prefix) {
    const keys = await this.#send("keys", `${this.#key(prefix).replace(/[*?[\]\\]/g, "\\$&")}*`);
    return keys.map((key) => key.slice(this.#key("").length)).sort();
  }

  #key(name) {
    return `${this.#prefix}:${name}`;
  }

  get #channel() {
    return `${this.#prefix}!`;
  }

  /** Fails soon while the server is away: the caller waits and tries again as it sees fit. */
  async #send(command, ...args) {
    this.#client ??= this.#connect({ maxRetriesPerRequest: 0, commandTimeout: TIMEOUT_MS });
    try {
      return await this.#client[command](...args);
    } catch (cause) {
      const message = `the store did not answer: ${plainText(String(cause?.message))}`;
      throw backendError(message, { retryable: true, cause });
    }
  }

  #connect(options) {
    const retryStrategy = (times) => Math.min(times * 20, 500);
    const client = new Redis(this.#url, { connectTimeout: TIMEOUT_MS, retryStrategy, ...options });
    return client.on("error", () => {});
  }

  /** One for all claims of this connection. What was sent while it was away is lost: then every waiter asks. */
  #subscribe() {
    const subscriber = this.#connect({ maxRetriesPerRequest: null, autoResubscribe: false });
    subscriber.on("ready", async () => {
      await subscriber.subscribe(this.#channel).catch(() => subscriber.disconnect(true));
      for (const notify of [...this.#watchers.values()]) notify();
    });
    subscriber.on("message", (_, message) => {
      const { id, notification } = parsed(message) ?? {};
      const { ticket, ...rest } = notification ?? {};
      this.#watchers.get(id)?.(ticket === undefined ? undefined : { ...rest, ticket: BigInt(ticket) });
    });
    return subscriber;
  }
}

/** What is stored of one name: its queue, its last ticket, and why claims were taken away. */
class NameState {
  lastTicket;
  forced;

  constructor(name, text) {
    const stored = text === "" ? { capacity: 0, claims: [], last: "0", forced: [] } : parsed(text);
    // What cannot be read is never taken for a free lock.
    if (!Array.isArray(stored?.claims))
      throw backendError("the store has another value there.", { name, retryable: false });
    const { capacity, claims, last, forced } = stored;
    this.queue = new Queue(name);
    this.queue.capacity = capacity;
    for (const claim of claims) this.queue.claims.push({ ...claim, ticket: BigInt(claim.ticket) });
    this.lastTicket = BigInt(last);
    this.forced = forced;
  }

  /** Never lower than the server's clock, so tokens grow also when the name was forgotten. */
  nextTicket(atMs) {
    const clock = BigInt(Math.floor(atMs * 1_000));
    this.lastTicket = this.lastTicket < clock ? clock : this.lastTicket + 1n;
    return this.lastTicket;
  }

  goneOf(id) {
    const [, force] = this.forced.find(([one]) => one === id) ?? [];
    return force === undefined
      ? { state: "gone", loss: "taken" }
      : { state: "gone", loss: "forced", ...force };
  }

  longestMs(atMs) {
    const untilMs = [
      ...this.queue.claims.map((claim) => claim.deadlineMs),
      ...this.forced.map(([, , until]) => until),
    ];
    return Math.max(0, ...untilMs) - atMs;
  }

  write(atMs) {
    this.forced = this.forced.filter(([, , untilMs]) => untilMs > atMs);
    const claims = this.queue.claims.map((claim) => ({ ...claim, ticket: String(claim.ticket) }));
    if (this.lastTicket === 0n) return "";
    const { capacity } = this.queue;
    return JSON.stringify({ capacity, claims, last: String(this.lastTicket), forced: this.forced });
  }
}

/** For child processes of the conformance suite. */
export default compareAndSet;
