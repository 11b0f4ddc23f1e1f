import { randomBytes } from "node:crypto";
import type { Gone, Notify } from "../../core/backend.js";
import { Forces } from "./force.js";
import type { ListedClaim } from "./keys.js";
import type { EtcdSettings } from "./options.js";
import type { OwnClaim } from "./own-claim.js";
import { Releases } from "./release.js";
import { EtcdRpc } from "./rpc.js";
import { Sessions } from "./sessions.js";
import { Watcher } from "./watcher.js";

/** What all operations of one connection share: the ways to the servers, and the claims that it has made. */
export class EngineState {
  readonly root: string;
  /** Where this connection hears that something was taken away from it. */
  readonly bell = randomBytes(9).toString("base64url");
  readonly rpc: EtcdRpc;
  readonly watcher: Watcher;
  readonly sessions: Sessions;
  readonly forcing: Forces;
  readonly releases = new Releases(this);
  readonly places = new Map<string, OwnClaim>();
  readonly rings = new Map<string, Notify>();

  constructor(settings: EtcdSettings) {
    this.root = settings.root;
    this.rpc = new EtcdRpc(settings, () => this.watcher.renew());
    this.watcher = new Watcher(this.rpc);
    this.sessions = new Sessions(this.rpc, settings.root);
    this.forcing = new Forces(this.rpc, this.watcher, settings.root, this.bell, (id, gone) => {
      const ownClaim = this.places.get(id);
      if (ownClaim?.ticket === undefined) return;
      this.forget(ownClaim);
      this.rings.get(id)?.({ ...gone, ticket: ownClaim.ticket });
    });
  }

  forget(ownClaim: OwnClaim): void {
    ownClaim.stopWatching();
    if (this.places.get(ownClaim.id) === ownClaim) this.places.delete(ownClaim.id);
    if (ownClaim.doubtful && !ownClaim.session.gone) this.releases.cancelPending(ownClaim);
  }

  /** It is not there any more: why? */
  async goneAfter(ownClaim: OwnClaim): Promise<Gone> {
    this.forget(ownClaim);
    return ownClaim.session.gone ? { state: "gone", loss: "session" } : this.forcing.goneOf(ownClaim.id);
  }

  /** Rings when one of them leaves, or has left already. */
  watchBlockers(ownClaim: OwnClaim, blockers: readonly ListedClaim[]): void {
    ownClaim.stopWatching();
    const stops = blockers.map(({ kv }) =>
      this.watcher.watch({
        key: kv.key,
        created: kv.create_revision,
        on: () => this.rings.get(ownClaim.id)?.(),
      }),
    );
    ownClaim.stopWatching = () => {
      for (const stop of stops) stop();
    };
  }
}
