import type { Answer, ClaimRequest, Ending, Gone, Renewal, RenewRequest } from "../../core/backend.js";
import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import { capacityOf, grantedOf, type ListedClaim } from "./listed-claims.js";
import { type OwnClaim, OwnClaims } from "./own-claims.js";
import { type ReleaseDriver, Releases } from "./release.js";

const MOST_ATTEMPTS = 20;

/** Why a claim was not made, or does not stay. */
export type Refusal = Extract<Answer, { state: "refused" | "queue-full" | "capacity-mismatch" }>;

/** What was seen of the queue of an own claim. */
export interface Look<L extends ListedClaim> {
  /** In ticket order; of an exclusive claim perhaps only the nearest. */
  readonly ahead: readonly L[];
  /** The revision of the own claim at that time, where the driver grants on the condition that it is unchanged. */
  readonly revision?: string;
}

export type Entry<L extends ListedClaim> =
  | ({ readonly state: "entered" } & Look<L>)
  /** An earlier request has made it. */
  | { readonly state: "known" }
  /** Another process was faster. */
  | { readonly state: "again" }
  /** It was made, and taken away before it was seen. */
  | { readonly state: "missing" }
  /** It was not made. */
  | Refusal;

export interface Blocked<L extends ListedClaim> {
  readonly blockers: readonly L[];
  readonly stop: () => void;
}

/** What differs between the engines. */
export interface QueueDriver<C extends OwnClaim, L extends ListedClaim> extends ReleaseDriver<C> {
  /** A claim for this request, on a session that lasts long enough; it is not sent yet. */
  prepare(request: ClaimRequest): Promise<C>;
  enter(claim: C, request: ClaimRequest, attempt: number): Promise<Entry<L>>;
  /** Looks at the queue, and writes the metadata if it has changed; `undefined` if the claim is not there. */
  look(claim: C, request: ClaimRequest): Promise<Look<L> | undefined>;
  /** The claims that are in the way; with `notify` it is called when one of them leaves, or has left already. */
  blockers(claim: C, ahead: readonly L[], notify?: () => void): Blocked<L> | Promise<Blocked<L>>;
  /** The first granted answer: a fixed or a minimal time begins. `false`: the claim has changed, look again. */
  grant(claim: C, request: ClaimRequest, look: Look<L>): Promise<boolean>;
  /** Why a claim is gone whose session is not. */
  goneOf(id: string): Promise<Gone>;
  forgotten(claim: C): void;
}

/** The queue of engines whose claims live by a session, and whose waiters watch the claims ahead of them. */
export class SessionQueue<C extends OwnClaim, L extends ListedClaim> {
  readonly claims: OwnClaims<C>;
  readonly releases: Releases<C>;
  readonly #driver: QueueDriver<C, L>;

  constructor(driver: QueueDriver<C, L>) {
    this.#driver = driver;
    this.claims = new OwnClaims((claim) => driver.forgotten(claim));
    this.releases = new Releases(this.claims, driver);
  }

  async claim(request: ClaimRequest, askedMs = nowMs()): Promise<Answer> {
    const { id, ticket } = request;
    const claim = this.claims.get(id);
    if (claim?.unwanted) {
      // It was refused, and its removal failed: the same request again must not find it, and be granted by it.
      if (claim.session.gone) this.claims.forget(claim);
      else await this.releases.remove(claim);
      return this.claim(request, askedMs);
    }
    if (claim?.ticket === undefined) {
      return ticket === undefined ? this.#enter(request, askedMs) : this.#driver.goneOf(id);
    }
    if (claim.left || (ticket !== undefined && ticket !== claim.ticket)) return this.#driver.goneOf(id);
    return this.#ask(request, claim, askedMs);
  }

  async release(id: string, ending: Exclude<Ending, object> | undefined): Promise<boolean> {
    const claim = this.claims.get(id);
    if (claim === undefined || (claim.left && ending === undefined)) return false;
    return this.releases.release(claim, ending === "unused");
  }

  /** It is not there any more: why? */
  async goneAfter(claim: C): Promise<Gone> {
    this.claims.forget(claim);
    return claim.session.gone ? { state: "gone", loss: "session" } : this.#driver.goneOf(claim.id);
  }

  async #enter(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const { name } = request;
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const claim = await this.#claimFor(request);
      const entry = await this.#driver.enter(claim, request, attempt);
      if (entry.state === "again") continue;
      if (entry.state === "known") return this.#ask(request, claim, askedMs);
      if (entry.state === "missing") return this.goneAfter(claim);
      if (entry.state !== "entered") {
        this.claims.forget(claim);
        return entry;
      }
      const refusal = await refusalOf(this.#driver, claim, request, entry.ahead);
      if (refusal === undefined) return this.#answer(request, claim, entry, askedMs);
      await this.releases.release(claim);
      return refusal;
    }
    throw backendError(`"${name}" changes too fast to enter its queue.`, { name, retryable: true });
  }

  async #claimFor(request: ClaimRequest): Promise<C> {
    const known = this.claims.get(request.id);
    if (known !== undefined && !known.session.gone) return known;
    const claim = await this.#driver.prepare(request);
    this.claims.add(claim);
    return claim;
  }

  async #ask(request: ClaimRequest, claim: C, askedMs: number): Promise<Answer> {
    const look = await this.#driver.look(claim, request);
    if (look !== undefined) return this.#answer(request, claim, look, askedMs);
    if (request.ticket !== undefined) return this.goneAfter(claim);
    this.claims.forget(claim);
    return this.#enter(request, askedMs);
  }

  async #answer(request: ClaimRequest, claim: C, look: Look<L>, askedMs: number): Promise<Answer> {
    const { ticket = 0n } = claim;
    claim.stopWatching();
    const { blockers, stop } = await this.#driver.blockers(claim, look.ahead, () =>
      this.claims.notify(claim),
    );
    if (this.claims.has(claim)) claim.stopWatching = stop;
    else stop(); // It was taken away meanwhile.
    if (blockers.length > 0) {
      claim.waited = true;
      const remainingMs = claim.remainingMs(askedMs, request.ttlMs);
      return { state: "waiting", ticket, remainingMs, changeInMs: Infinity };
    }
    if (claim.grantedAtMs === undefined && !(await this.#driver.grant(claim, request, look)))
      return this.#ask(request, claim, askedMs);
    return { state: "granted", ticket, remainingMs: claim.remainingMs(askedMs) };
  }
}

/** Why a claim with these ahead of it cannot stay, if so. */
export async function refusalOf<C extends OwnClaim, L extends ListedClaim>(
  driver: Pick<QueueDriver<C, L>, "blockers">,
  claim: C,
  { queue, maxWaiters }: ClaimRequest,
  ahead: readonly L[],
): Promise<Refusal | undefined> {
  const inForce = capacityOf(ahead) ?? claim.capacity;
  if (inForce !== claim.capacity) return { state: "capacity-mismatch", capacity: inForce };
  if (queue && maxWaiters === undefined) return undefined;
  const { blockers } = await driver.blockers(claim, ahead);
  if (blockers.length === 0) return undefined;
  if (!queue) return { state: "refused" };
  const waiters = ahead.length - grantedOf(ahead, claim.capacity);
  return waiters < (maxWaiters ?? Infinity) ? undefined : { state: "queue-full", waiters };
}

/** A failure that concerns one claim does not hide the answers of the others. */
export function renewEach<R extends RenewRequest>(
  requests: readonly R[],
  renewOne: (request: R) => Promise<Renewal>,
): Promise<readonly Renewal[]> {
  return Promise.all(
    requests.map((request) =>
      renewOne(request).catch((error: unknown) => ({ state: "unknown", error }) as const),
    ),
  );
}
