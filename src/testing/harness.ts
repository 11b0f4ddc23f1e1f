import type { Backend } from "../core/backend.js";

/** How a child process makes its own connection: a module whose default export is a `BackendFactory`. */
export interface WorkerBackend {
  /** An absolute `file:` URL. */
  readonly module: string;
  /** Passed to the factory; must survive JSON. */
  readonly args: unknown;
}

/** Makes the backend in the child process, of what the harness has passed on. */
export type BackendFactory = (args: never) => Backend | Promise<Backend>;

export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/** Why an engine lacks something: shown beside the cases that are left out. */
export interface Lacking {
  readonly skip: string;
}

/**
 * A server behind a fault proxy: where it listens, and how to connect through the proxy instead. Two things are needed
 * of the client:
 * - The name and the note of a claim are literally in the bytes of its request, neither compressed nor encrypted nor
 *   split: the cases find a request by them. One that is not found fails after 5 s, and says so.
 * - Failures show in time. A connection that is refused or dropped must fail a renewal within about 0.65 s, by an
 *   error or by `unknown`: a ttl of 4 s is renewed after a third of it, and half of it is allowed until the failed
 *   renewal is told. A claim must fail so soon that its caller is told within 2 s after its wait, or its ttl, is over.
 *   A request whose bytes vanish must fail by itself: a wait with a ttl of 1 s has to end within 30 s. A connection
 *   that was cut off must work again within 5 s.
 */
export interface ProxiedBackend {
  readonly target: HostAndPort;
  /** The other servers that a client needs, each behind a proxy of its own that does the same. */
  readonly others?: readonly HostAndPort[];
  /** A new connection through the proxies. */
  open(proxy: HostAndPort, others: readonly HostAndPort[]): Backend;
  /** The server itself ends a connection that its client has left behind: what was on its way is never delivered. */
  readonly endsStaleConnections?: boolean;
}

/** A place of its own for locks, such as a prefix or a file, in which the harness can count what is stored. */
export interface CountedPlace {
  /** All of these connections meet at the same locks. They forget idle names as soon as the engine allows. */
  open(): Backend;
  /**
   * How many keys, rows or nodes are stored there. It asks the server, or the file, past the engine: a look by the
   * engine may clean up what it was to find.
   */
  count(): Promise<number>;
  /** How long an idle name is kept there, for the sake of its tokens. Nothing, unless it is said. */
  readonly retentionMs?: number;
  /** What is stored there for good or for longer, and why. Nothing, unless it is said. */
  readonly kept?: { readonly number: number; readonly why: string };
}

/** What a suite needs to know of an engine. What it lacks, it says why. */
export interface Harness {
  readonly engine: string;
  /** For how much of its ttl a fresh lease is trusted; all of it, unless the engine says otherwise. */
  readonly trustedShare?: number;
  /** A new connection. All of them meet at the same locks. */
  open(): Backend;
  /** Real child processes, or the reason why there are none. */
  readonly processes: WorkerBackend | Lacking;
  /** A fault proxy in between, or the reason why there is none. */
  readonly network: ProxiedBackend | Lacking;
  /**
   * A connection keeps its claims alive by itself, as one that pings for its session does. So a claim is not outlived
   * by waiting: the cases cut the connection off until the session is over, which needs `network`.
   */
  readonly keepsAlive?: true;
  /**
   * Makes the engine forget everything: the harshest loss that an operator can cause while the engine goes on. What a
   * flush, a truncated table, a deleted bucket or a lossy failover takes away, this takes away; a milder one (a purge
   * that keeps the counters of the server) would hide that tokens restart. Tokens must be greater afterwards, unless
   * `tokensRestart` is said. Or why it cannot.
   */
  readonly wipe: (() => Promise<void>) | Lacking;
  /** Tokens may be lower after `wipe`: then `traits.fencing` is false, or one of `traits.caveats` speaks of tokens. */
  readonly tokensRestart?: true;
  /** Where it can be counted what expired claims leave behind. Without it, that is not looked at. */
  readonly leftovers?: CountedPlace | Lacking;
  /**
   * How many wait in a crowd, and why not 3,000, where so many would take longer than a few seconds. Twice as many, but
   * at most 1,000, wait where the requests of a release are counted.
   */
  readonly crowd?: { readonly waiters: number; readonly why: string };
  /** Why only the mutex is looked at, where another harness of the same engine shows the other kinds. */
  readonly kinds?: Lacking;
  /** Why it is not shown that the other kinds are as good as a mutex, where another harness of the same engine does. */
  readonly disguises?: Lacking;
  /** Why there are no cells, where the engine keeps no values. */
  readonly cells?: Lacking;
  /** Why no waiter can be seen, where the engine keeps no queue. */
  readonly queue?: Lacking;
  /** Why no claim stays with a process that does not need it now, where the engine tells no holder that others want it. */
  readonly sticky?: Lacking;
}

/** The test runner, reduced to what every runner has. */
export interface Runner {
  /** A group of tests. */
  describe(name: string, body: () => void): void;
  /** One test. */
  test(name: string, body: () => Promise<void>): void;
  /** For tests that mostly wait, and may do so side by side; without it, they run one after the other. */
  together?(name: string, body: () => Promise<void>): void;
  /** A test that is left out: show why. */
  skip(name: string, reason: string): void;
}
