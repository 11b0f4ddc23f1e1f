import type {
  Answer,
  Backend,
  ClaimRequest,
  Force,
  Gone,
  Notification,
  Notify,
  Renewal,
  ResourceRecord,
  Traits,
} from "#lib/core/backend.js";
import { backendError } from "#lib/core/errors.js";
import { Queue } from "#lib/engine-kit/queue.js";
import type { Machine, World } from "./world.js";

// One server with the executable specification of the queue, and a network that loses and delays what it carries.

export interface Network {
  readonly lostRequest: number;
  readonly lostAnswer: number;
  readonly lostNotification: number;
  /** A request or an answer that takes up to twice the ttl. */
  readonly late: number;
  readonly timeoutMs: number;
}

/** What the rules want to know of what a process asks and hears. Times are those of its own clock. */
export interface Observer {
  answered(machine: Machine, request: ClaimRequest, answer: Answer, sentMs: number): void;
  renewed(machine: Machine, id: string, answer: Renewal, sentMs: number): void;
  notified(machine: Machine, id: string, notification: Notification | undefined): void;
  releases(machine: Machine, id: string, ending: unknown): void;
}

interface Watcher {
  readonly machine: Machine;
  readonly name: string;
  readonly notify: Notify;
}

export class Server {
  readonly queues = new Map<string, Queue>();
  /** Claims that were taken away, though their time was not over. */
  readonly takenAway = new Set<string>();
  /** Since when there has been no claim. */
  readonly freeSinceMs = new Map<string, number>();
  network: Network;
  awayUntilMs = 0;
  readonly #forced = new Map<string, Gone>();
  readonly #watchers = new Map<string, Watcher>();
  #lastTicket = 0n;

  constructor(
    readonly world: World,
    readonly ttlMs: number,
    network: Network,
    readonly traits: Traits,
    readonly observer: Observer,
  ) {
    this.network = network;
  }

  at<T>(name: string, act: (queue: Queue, atMs: number, notify: Parameters<Queue["claim"]>[2]) => T): T {
    const queue = this.queues.get(name) ?? new Queue(name);
    this.queues.set(name, queue);
    const before = queue.claims.length;
    const { result, notify } = queue.step(this.world.nowMs, (tell) => act(queue, this.world.nowMs, tell));
    for (const { id, notification } of notify) this.#tell(id, notification);
    if (queue.claims.length > 0) this.freeSinceMs.delete(name);
    else if (!this.freeSinceMs.has(name)) this.freeSinceMs.set(name, this.world.nowMs);
    // Without a queue each process is told that it may ask.
    if (!this.traits.queueing && queue.claims.length < before) {
      for (const [id, watcher] of this.#watchers) if (watcher.name === name) this.#tell(id, undefined);
    }
    return result;
  }

  /** An operator takes the claim of the holder away. */
  force(name: string): void {
    const [holder] = this.queues.get(name)?.claims ?? [];
    if (holder === undefined) return;
    const force: Force = { reason: "model" };
    this.takenAway.add(holder.id);
    this.#forced.set(holder.id, { state: "gone", loss: "forced", ...force });
    this.at(name, (queue, atMs, notify) => queue.release(holder.id, true, atMs, notify, force));
  }

  /** It forgets its claims, but not its last ticket. */
  forget(name: string): void {
    const claims = this.queues.get(name)?.claims.splice(0) ?? [];
    for (const { id } of claims) this.takenAway.add(id);
  }

  /** Requests fail at once, and notifications are lost; then each claim is told to ask. */
  goAway(forMs: number): void {
    this.awayUntilMs = this.world.nowMs + forMs;
    this.world.at(this.awayUntilMs, () => {
      for (const id of this.#watchers.keys()) this.#tell(id, undefined);
    });
  }

  #tell(id: string, notification: Notification | undefined): void {
    const watcher = this.#watchers.get(id);
    if (watcher === undefined || this.#isAway || this.world.chance(this.network.lostNotification)) return;
    const { machine } = watcher;
    const arriveMs = this.world.nowMs + this.world.between(0.1, 3);
    const arrives = () => {
      if (this.#watchers.get(id) !== watcher) return;
      this.observer.notified(machine, id, notification);
      watcher.notify(notification);
    };
    this.world.at(arriveMs, arrives, machine);
  }

  get #isAway(): boolean {
    return this.world.nowMs < this.awayUntilMs;
  }

  #gone(id: string): Gone {
    return this.#forced.get(id) ?? { state: "gone", loss: "taken" };
  }

  /** A request of that process. Its answer is heard when the process runs again. */
  #ask<T>(machine: Machine, act: () => T, hears: (answer: T) => void): Promise<T> {
    const { world, network } = this;
    return new Promise((resolve, reject) => {
      let isOver = false;
      const fails = (why: string) => {
        isOver = true;
        reject(backendError(why, { retryable: true }));
      };
      if (machine.atMs < this.awayUntilMs) {
        world.at(machine.atMs + 1, () => fails("away"), machine);
        return;
      }
      const timeout = world.at(machine.atMs + network.timeoutMs, () => fails("no answer"), machine);
      const tripMs = () =>
        world.chance(network.late) ? world.random() * this.ttlMs * 2 : world.between(0.1, 3);
      let arriveMs = machine.atMs + tripMs();
      if (arriveMs < machine.atMs + 3) {
        arriveMs = Math.max(arriveMs, machine.lastArrivalMs);
        machine.lastArrivalMs = arriveMs;
      }
      if (world.chance(network.lostRequest)) return;
      world.at(arriveMs, () => {
        if (this.#isAway) return;
        const answer = act();
        if (world.chance(network.lostAnswer)) return;
        const comes = () => {
          if (isOver) return;
          timeout.isOff = true;
          hears(answer);
          resolve(answer);
        };
        world.at(world.nowMs + tripMs(), comes, machine);
      });
    });
  }

  backendFor(machine: Machine): Backend {
    const { observer } = this;
    return {
      traits: this.traits,
      claim: (request) => {
        const sentMs = machine.localMs;
        const asked = { ...request, queue: request.queue && this.traits.queueing };
        return this.#ask(
          machine,
          () => this.#claim(asked),
          (answer) => observer.answered(machine, request, answer, sentMs),
        );
      },
      renew: (claims) => {
        const sentMs = machine.localMs;
        return this.#ask<readonly Renewal[]>(
          machine,
          () =>
            claims.map(({ name, id, ticket, ttlMs }) =>
              this.at(name, (queue, atMs) => queue.renew(id, ticket, ttlMs, atMs) ?? this.#gone(id)),
            ),
          (answers) => {
            for (const [index, answer] of answers.entries())
              observer.renewed(machine, claims[index]?.id ?? "", answer, sentMs);
          },
        );
      },
      release: ({ name, id }, ending) => {
        observer.releases(machine, id, ending);
        return this.#ask(
          machine,
          () => this.at(name, (queue, atMs, notify) => queue.release(id, ending !== undefined, atMs, notify)),
          () => undefined,
        );
      },
      list: (query) => this.#list(machine, query),
      watch: ({ name, id }, notify) => {
        this.#watchers.set(id, { machine, name, notify });
        return () => void this.#watchers.delete(id);
      },
      close: async () => undefined,
    };
  }

  #claim(request: ClaimRequest): Answer {
    const answer = this.at(request.name, (queue, atMs, notify) =>
      queue.claim(
        request,
        atMs,
        notify,
        () => ++this.#lastTicket,
        () => this.#gone(request.id),
      ),
    );
    return answer.state === "refused" ? { ...answer, againInMs: 50 } : answer;
  }

  async *#list(machine: Machine, query: Parameters<Backend["list"]>[0]): AsyncIterable<ResourceRecord> {
    const names = "name" in query ? [query.name] : [...this.queues.keys()];
    for (const name of names) {
      const look = () =>
        this.at(name, (queue, atMs) => ({ name, capacity: queue.capacity, claims: queue.records(atMs) }));
      const record = await this.#ask(machine, look, () => undefined);
      if (record.claims.length > 0) yield record;
    }
  }
}
