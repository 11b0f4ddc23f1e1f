import { ShortLivedMap } from "./short-lived.js";

/** An exclusive grant of this connection. */
interface LocalGrant {
  readonly name: string;
  readonly ticket: bigint;
  readonly live: boolean;
  /** Of a mutex or a read-write lock: all that it needs is taken. */
  readonly whole: boolean;
  /** A newer grant has proved that it is gone. */
  superseded(): void;
}

/** What a process knows of a claim of its own, beyond what the engine shows. */
export interface KnownHere {
  readonly tasks: number;
  readonly number?: number;
  readonly note?: string;
  /** No task needs it. */
  readonly isIdle?: boolean;
}

/** The tasks that ask for one name with one ttl. */
export interface TaskQueue {
  readonly ttlMs: number;
  /** No task holds the claim that this process has. */
  readonly isBetweenTasks: boolean;
  /** A newer grant has proved that a claim without a task is gone. */
  endIdleBelow(ticket: bigint): void;
  knownOf(ticket: bigint): KnownHere | undefined;
  /** Gives back a claim that no task needs, because it stands in the way of another one; settles when it is gone. */
  releaseIdle(): Promise<unknown> | undefined;
}

/** What this connection holds and waits for at one name. */
export interface LocalName {
  readonly name: string;
  /** Exclusive grants that have not ended. */
  readonly grants: LocalGrant[];
  /** One for each ttl. */
  readonly queues: TaskQueue[];
  /** Claims of single tasks that wait in the server's queue. */
  singleWaiters: number;
}

/** The names at which this connection holds or waits for something. */
export class LocalNames {
  readonly #names = new ShortLivedMap<string, LocalName>();

  find(name: string): LocalName | undefined {
    return this.#names.get(name);
  }

  /** To be given back by `tidy`. */
  at(name: string): LocalName {
    let known = this.#names.get(name);
    if (known === undefined) {
      known = { name, grants: [], queues: [], singleWaiters: 0 };
      this.#names.set(name, known);
    }
    return known;
  }

  /**
   * An exclusive grant proves that claims with lower tickets are gone, whatever this process believes of them. A grant
   * with a lower ticket than that of a live lease is old, and the answer is `false`.
   */
  admit(name: string, ticket: bigint): boolean {
    const here = this.#names.get(name);
    if (here === undefined) return true;
    if (here.grants.some((grant) => grant.ticket > ticket && grant.live)) return false;
    for (const grant of [...here.grants]) if (grant.ticket < ticket) grant.superseded();
    for (const queue of [...here.queues]) queue.endIdleBelow(ticket);
    return true;
  }

  granted(grant: LocalGrant): void {
    this.at(grant.name).grants.push(grant);
  }

  ended(grant: LocalGrant): void {
    const here = this.#names.get(grant.name);
    const index = here?.grants.indexOf(grant) ?? -1;
    if (here === undefined || index === -1) return;
    here.grants.splice(index, 1);
    this.tidy(here);
  }

  tidy(here: LocalName): void {
    if (here.grants.length === 0 && here.queues.length === 0 && here.singleWaiters === 0)
      this.#names.delete(here.name);
  }

  /** Gives back the idle claims of a name, but for those of that ttl. The promise resolves when they are gone. */
  releaseIdle(name: string, exceptTtlMs?: number): Promise<unknown> | undefined {
    const here = this.#names.get(name);
    const others = here?.queues.filter(({ ttlMs }) => ttlMs !== exceptTtlMs) ?? [];
    if (others.length === 0) return undefined;
    const released = others.map((queue) => queue.releaseIdle()).filter((one) => one !== undefined);
    return released.length === 0 ? undefined : Promise.allSettled(released);
  }

  releaseAllIdle(): void {
    for (const name of [...this.#names.keys()]) void this.releaseIdle(name);
  }

  /** Whether a task of this process holds that name, so that a lock that is only tried is refused without a question. */
  isHeld(name: string): boolean {
    const here = this.#names.get(name);
    if (here === undefined) return false;
    return (
      here.grants.some((grant) => grant.whole && grant.live) ||
      here.queues.some((queue) => queue.isBetweenTasks)
    );
  }
}
