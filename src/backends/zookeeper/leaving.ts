import { nowMs } from "../../core/clock.js";
import type { Desk } from "./desk.js";
import type { Entry } from "./entry.js";
import { unless } from "./errors.js";
import type { ZooKeeperPlace } from "./place.js";
import { ERROR, remove } from "./protocol.js";

/** Giving places back: now, when their minimal time is over, or as soon as the servers can be reached again. */
export class Leaving {
  readonly #desk: Desk;
  readonly #entry: Entry;

  constructor(desk: Desk, entry: Entry) {
    this.#desk = desk;
    this.#entry = entry;
  }

  /** Says whether it was still there. What nobody has worked under need not stay for its minimal time. */
  async release(place: ZooKeeperPlace, unused = false): Promise<boolean> {
    const restMs = place.heldUntilMs() - nowMs();
    return restMs > 0 && !unused ? this.#leaveLater(place, restMs) : this.remove(place);
  }

  /** Its session keeps it if this process ends meanwhile; while it runs, it is removed to the moment. */
  async #leaveLater(place: ZooKeeperPlace, restMs: number): Promise<boolean> {
    const there = await place.session.look();
    if (!there.has(place.path)) {
      this.#desk.forget(place);
      return false;
    }
    place.left = true;
    this.#desk.timers.later(restMs, () => void this.remove(place).catch(() => undefined));
    return true;
  }

  /** Says whether it was there. If that cannot be known now, it is tried again when the session is connected. */
  async remove(place: ZooKeeperPlace): Promise<boolean> {
    place.unwanted = true;
    const found = place.session.gone ? false : await this.#removeNode(place);
    this.#desk.forget(place);
    return found;
  }

  async #removeNode(place: ZooKeeperPlace): Promise<boolean> {
    if (place.doubtful) await this.#entry.find(place);
    if (place.node === undefined) return false;
    const removed = place.session.client.send(remove(place.path)).then(() => true);
    return (await removed.catch(unless(ERROR.noNode))) ?? false;
  }
}
