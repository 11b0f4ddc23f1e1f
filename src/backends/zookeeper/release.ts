import { nowMs } from "../../core/clock.js";
import type { CreateClaim } from "./create-claim.js";
import type { EngineState } from "./engine-state.js";
import { unless } from "./errors.js";
import type { OwnClaim } from "./own-claim.js";
import { ERROR, remove } from "./protocol.js";

/** Giving places back: now, when their minimal time is over, or as soon as the servers can be reached again. */
export class Releases {
  readonly #engine: EngineState;
  readonly #entry: CreateClaim;

  constructor(engine: EngineState, entry: CreateClaim) {
    this.#engine = engine;
    this.#entry = entry;
  }

  /** Says whether it was still there. What nobody has worked under need not stay for its minimal time. */
  async release(ownClaim: OwnClaim, unused = false): Promise<boolean> {
    const restMs = ownClaim.heldUntilMs() - nowMs();
    return restMs > 0 && !unused ? this.#leaveLater(ownClaim, restMs) : this.remove(ownClaim);
  }

  /** Its session keeps it if this process ends meanwhile; while it runs, it is removed to the moment. */
  async #leaveLater(ownClaim: OwnClaim, restMs: number): Promise<boolean> {
    const there = await ownClaim.session.look();
    if (!there.has(ownClaim.path)) {
      this.#engine.forget(ownClaim);
      return false;
    }
    ownClaim.left = true;
    this.#engine.timers.later(restMs, () => void this.remove(ownClaim).catch(() => undefined));
    return true;
  }

  /** Says whether it was there. If that cannot be known now, it is tried again when the session is connected. */
  async remove(ownClaim: OwnClaim): Promise<boolean> {
    ownClaim.unwanted = true;
    const found = ownClaim.session.gone ? false : await this.#removeNode(ownClaim);
    this.#engine.forget(ownClaim);
    return found;
  }

  async #removeNode(ownClaim: OwnClaim): Promise<boolean> {
    if (ownClaim.doubtful) await this.#entry.find(ownClaim);
    if (ownClaim.node === undefined) return false;
    const removed = ownClaim.session.client.send(remove(ownClaim.path)).then(() => true);
    return (await removed.catch(unless(ERROR.noNode))) ?? false;
  }
}
