import type { Gone, Notify } from "../../core/backend.js";
import { isRefusal, reachedNobody } from "./errors.js";
import { GoneReasons } from "./force.js";
import { HeldSinceWriter } from "./held-since.js";
import type { ListedClaim } from "./names.js";
import type { ZooKeeperSettings } from "./options.js";
import type { OwnClaim } from "./own-claim.js";
import { ERROR, remove } from "./protocol.js";
import { aheadOf } from "./queue-view.js";
import type { Session } from "./session.js";
import { Sessions } from "./sessions.js";
import { Timers } from "./timers.js";

/** On how many sessions one request may be tried, each of which turns out to be over. */
const MOST_SESSIONS = 3;

/** What all operations of one connection share: its sessions, and the claims that it has made. */
export class EngineState {
  readonly root: string;
  readonly sessions: Sessions;
  readonly places = new Map<string, OwnClaim>();
  readonly rings = new Map<string, Notify>();
  readonly timers = new Timers();
  readonly shown = new HeldSinceWriter(this.timers);
  readonly #obituaries = new GoneReasons();

  constructor(settings: ZooKeeperSettings, onReattached: (session: Session) => void) {
    this.root = settings.root;
    this.sessions = new Sessions(settings, {
      bell: (session) => this.#listen(session),
      reattached: (session) => {
        this.#listen(session);
        onReattached(session);
      },
      gone: (session) => this.#sessionGone(session),
    });
  }

  placesOf(session: Session): readonly OwnClaim[] {
    return [...this.places.values()].filter((ownClaim) => ownClaim.session === session);
  }

  forget(ownClaim: OwnClaim): void {
    ownClaim.stopWatching();
    this.shown.forget(ownClaim);
    if (this.places.get(ownClaim.id) === ownClaim) this.places.delete(ownClaim.id);
  }

  /** Who stands before it; `undefined` if it is not in line itself. */
  aheadOf(ownClaim: OwnClaim, line: readonly ListedClaim[]): readonly ListedClaim[] | undefined {
    const found = aheadOf(line, ownClaim);
    for (const { node } of found?.orphans ?? []) {
      ownClaim.session.client.send(remove(`${ownClaim.parent}/${node}`)).catch(() => undefined);
    }
    return found?.ahead;
  }

  /** It is not there any more: why? */
  async goneAfter(ownClaim: OwnClaim): Promise<Gone> {
    this.forget(ownClaim);
    return ownClaim.session.gone ? { state: "gone", loss: "session" } : this.goneOf(ownClaim.id);
  }

  async goneOf(id: string): Promise<Gone> {
    const known = this.#obituaries.of(id);
    if (known !== undefined) return known;
    // The bell may have been rung a moment ago.
    const listening = this.sessions.live.map((one) =>
      this.#obituaries.listen(one, (...at) => this.#ringGone(...at)),
    );
    await Promise.all(listening);
    return this.#obituaries.of(id) ?? { state: "gone", loss: "taken" };
  }

  #listen(session: Session): void {
    this.#obituaries.listen(session, (id, gone) => this.#ringGone(id, gone)).catch(() => undefined);
  }

  #ringGone(id: string, gone: Gone): void {
    const ownClaim = this.places.get(id);
    if (ownClaim?.ticket === undefined) return;
    this.forget(ownClaim);
    this.rings.get(id)?.({ ...gone, ticket: ownClaim.ticket });
  }

  #sessionGone(session: Session): void {
    const gone: Gone = { state: "gone", loss: "session" };
    for (const ownClaim of this.placesOf(session)) {
      this.#obituaries.add(ownClaim.id, gone);
      if (ownClaim.ticket === undefined) this.forget(ownClaim);
      else this.#ringGone(ownClaim.id, gone);
    }
  }
}

/**
 * A session that turns out to be over leaves nothing: the next one is asked, or a claim is known to be gone. And
 * what was written to a connection that the server had closed long before, while we did not run, reached nobody.
 */
export async function againIfExpired<T>(act: () => Promise<T>): Promise<T> {
  return againIf((error) => isExpired(error) || reachedNobody(error), act);
}

/** For what must not be done twice: others that were sent before on such a connection may have reached somebody. */
export async function againIfRefused<T>(act: () => Promise<T>): Promise<T> {
  return againIf(isExpired, act);
}

function isExpired(error: unknown): boolean {
  return isRefusal(error, ERROR.sessionExpired);
}

async function againIf<T>(inVain: (error: unknown) => boolean, act: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (!inVain(error) || attempt === MOST_SESSIONS) throw error;
    }
  }
}
