import { randomBytes } from "node:crypto";
import type { Gone, Notify } from "../../core/backend.js";
import { Forcing } from "./forcing.js";
import type { ListedClaim } from "./keys.js";
import { Leaving } from "./leaving.js";
import type { EtcdSettings } from "./options.js";
import type { EtcdPlace } from "./place.js";
import { EtcdRpc } from "./rpc.js";
import { Sessions } from "./sessions.js";
import { Watcher } from "./watcher.js";

/** What all operations of one connection share: the ways to the servers, and the claims that it has made. */
export class Desk {
  readonly root: string;
  /** Where this connection hears that something was taken away from it. */
  readonly bell = randomBytes(9).toString("base64url");
  readonly rpc: EtcdRpc;
  readonly watcher: Watcher;
  readonly sessions: Sessions;
  readonly forcing: Forcing;
  readonly leaving = new Leaving(this);
  readonly places = new Map<string, EtcdPlace>();
  readonly rings = new Map<string, Notify>();

  constructor(settings: EtcdSettings) {
    this.root = settings.root;
    this.rpc = new EtcdRpc(settings, () => this.watcher.renew());
    this.watcher = new Watcher(this.rpc);
    this.sessions = new Sessions(this.rpc, settings.root);
    this.forcing = new Forcing(this.rpc, this.watcher, settings.root, this.bell, (id, gone) => {
      const place = this.places.get(id);
      if (place?.ticket === undefined) return;
      this.forget(place);
      this.rings.get(id)?.({ ...gone, ticket: place.ticket });
    });
  }

  forget(place: EtcdPlace): void {
    place.stopWatching();
    if (this.places.get(place.id) === place) this.places.delete(place.id);
    if (place.doubtful && !place.session.gone) this.leaving.dispel(place);
  }

  /** It is not there any more: why? */
  async goneAfter(place: EtcdPlace): Promise<Gone> {
    this.forget(place);
    return place.session.gone ? { state: "gone", loss: "session" } : this.forcing.goneOf(place.id);
  }

  /** Rings when one of them leaves, or has left already. */
  watchBlockers(place: EtcdPlace, blockers: readonly ListedClaim[]): void {
    place.stopWatching();
    const stops = blockers.map(({ kv }) =>
      this.watcher.watch({
        key: kv.key,
        created: kv.create_revision,
        on: () => this.rings.get(place.id)?.(),
      }),
    );
    place.stopWatching = () => {
      for (const stop of stops) stop();
    };
  }
}
