import type { Backend } from "../core/backend.js";

/** How a child process makes its own connection: a module whose default export is a `BackendFactory`. */
export interface WorkerBackend {
  /** An absolute `file:` URL. */
  readonly module: string;
  /** Passed to the factory; must survive JSON. */
  readonly args: unknown;
}

export type BackendFactory = (args: never) => Backend | Promise<Backend>;

export interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/** A server behind a fault proxy: where it listens, and how to connect through the proxy instead. */
export interface ProxiedBackend {
  readonly target: HostAndPort;
  /** The other servers that a client needs, each behind a proxy of its own that does the same. */
  readonly others?: readonly HostAndPort[];
  open(proxy: HostAndPort, others: readonly HostAndPort[]): Backend;
  /** The server itself ends a connection that its client has left behind: what was on its way is never delivered. */
  readonly endsStaleConnections?: boolean;
}

/** What a suite needs to know of an engine. What it lacks, it says why. */
export interface Harness {
  readonly engine: string;
  /** For how much of its ttl a fresh lease is trusted; all of it, unless the engine says otherwise. */
  readonly trustedShare?: number;
  /** A new connection. All of them meet at the same locks. */
  open(): Backend;
  /** Real child processes, or the reason why there are none. */
  readonly processes: WorkerBackend | { readonly skip: string };
  /** A fault proxy in between, or the reason why there is none. */
  readonly network: ProxiedBackend | { readonly skip: string };
  /** Makes the engine forget everything, as a flush or a lossy failover would; or why it cannot. */
  readonly wipe: (() => Promise<void>) | { readonly skip: string };
  /** Why only the mutex is looked at, where another harness of the same engine shows the other kinds. */
  readonly kinds?: { readonly skip: string };
  /** Why it is not shown that the other kinds are as good as a mutex, where another harness of the same engine does. */
  readonly disguises?: { readonly skip: string };
  /** Why there are no cells, where the engine keeps no values. */
  readonly cells?: { readonly skip: string };
  /** Why nobody can be seen waiting, where the engine keeps no queue. */
  readonly queue?: { readonly skip: string };
}

/** The test runner, reduced to what every runner has. */
export interface Runner {
  describe(name: string, body: () => void): void;
  test(name: string, body: () => Promise<void>): void;
  /** For tests that mostly wait, and may do so side by side; without it, they run one after the other. */
  together?(name: string, body: () => Promise<void>): void;
  skip(name: string, reason: string): void;
}
