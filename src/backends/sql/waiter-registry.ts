import type { Answer, Gone, Notification, Notify, Renewal, Unwatch } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";

export interface Watched {
  readonly name: string;
  readonly id: string;
  readonly notify: Notify;
  ticket: bigint;
  state: "asking" | "waiting" | "held";
  sinceMs: number;
  /** When it last asked. */
  sentMs: number;
  /** It has been told to ask, and has not asked yet. */
  notified: boolean;
  /** It may stay when it is not needed, because the server tells when another claim wants it. */
  mayStay: boolean;
}

type ClaimKey = { readonly name: string; readonly id: string };

/** The claims of this process that wait for notifications, and the state of each of them. */
export class WaiterRegistry {
  readonly #listeners: (() => void)[] = [];
  readonly #watched = new Map<string, Watched>();
  /** The claims that wait, by name. */
  readonly #waiting = new Map<string, Set<Watched>>();

  get waiting(): ReadonlyMap<string, ReadonlySet<Watched>> {
    return this.#waiting;
  }

  /** Called when a claim has begun to wait or to hold: the poller may have to look more often. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Whether a claim is held, for at least so long. */
  anyHeld(forMs = 0): boolean {
    const sinceMs = nowMs() - forMs;
    for (const watched of this.#watched.values())
      if (watched.state === "held" && watched.sinceMs <= sinceMs) return true;
    return false;
  }

  watch({ name, id }: ClaimKey, notify: Notify): Unwatch {
    const watched: Watched = {
      name,
      id,
      notify,
      ticket: 0n,
      state: "asking",
      sinceMs: nowMs(),
      sentMs: Infinity,
      notified: false,
      mayStay: false,
    };
    this.#waitNoMore(this.#watched.get(id));
    this.#watched.set(id, watched);
    return () => {
      this.#waitNoMore(watched);
      if (this.#watched.get(id) === watched) this.#watched.delete(id);
    };
  }

  /** From now on the claim is told when another one wants it. Says whether it is watched. */
  mayStay(id: string): boolean {
    const watched = this.#watched.get(id);
    if (watched !== undefined) watched.mayStay = true;
    return watched !== undefined;
  }

  /** The server tells no more, so no claim stays: each of them is wanted, as far as is known. */
  noneMayStay(): void {
    for (const watched of [...this.#watched.values()]) {
      if (!watched.mayStay) continue;
      watched.mayStay = false;
      watched.notify({ state: "wanted", ticket: watched.ticket });
    }
  }

  sent(id: string): void {
    const watched = this.#watched.get(id);
    if (watched !== undefined) watched.sentMs = nowMs();
  }

  /** What the engine has just said about a claim. */
  answered({ id }: ClaimKey, answer: Answer | Renewal, ticket: bigint | undefined): void {
    const watched = this.#watched.get(id);
    if (watched === undefined || answer.state === "unknown") return;
    watched.notified = false;
    if (ticket !== undefined) watched.ticket = ticket;
    if (answer.state === "waiting") {
      if (watched.state !== "waiting") this.#waits(watched);
      return;
    }
    this.#waitNoMore(watched);
    const isHeld = answer.state === "granted" || answer.state === "held";
    if (!isHeld || watched.state === "held") return;
    watched.state = "held";
    watched.sinceMs = nowMs();
    this.#changed();
  }

  /** A message, or what a look has found. A notification for an older ticket means: ask. */
  tell(id: string, news?: Notification): void {
    const watched = this.#watched.get(id);
    if (watched === undefined) return;
    watched.notified = true;
    watched.notify(news);
  }

  tellForced(id: string, ticket: bigint, gone: Gone): void {
    if (this.#watched.get(id)?.ticket === ticket) this.tell(id, { ...gone, ticket });
  }

  /** Tells all claims that asked before that time to ask again: they may have missed a notification. */
  tellAllBefore(atMs: number): void {
    for (const { id, sentMs } of [...this.#watched.values()]) if (sentMs <= atMs) this.tell(id);
  }

  clear(): void {
    this.#watched.clear();
    this.#waiting.clear();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  #waits(watched: Watched): void {
    watched.state = "waiting";
    const waiters = this.#waiting.get(watched.name);
    if (waiters === undefined) this.#waiting.set(watched.name, new Set([watched]));
    else waiters.add(watched);
    this.#changed();
  }

  #waitNoMore(watched: Watched | undefined): void {
    if (watched?.state !== "waiting") return;
    watched.state = "asking";
    const waiters = this.#waiting.get(watched.name);
    waiters?.delete(watched);
    if (waiters?.size === 0) this.#waiting.delete(watched.name);
  }
}
