import type {
  Answer,
  Backend,
  CellStore,
  ClaimRequest,
  Ending,
  Force,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import { worthWatching } from "../../core/claim.js";
import { nowMs } from "../../core/clock.js";
import { backendError } from "../../core/errors.js";
import { type TlsSettings, tlsCaveats } from "../../engine-kit/tls.js";
import {
  type ClaimDriver,
  capacityOf,
  grantedOf,
  type ListedClaim,
  type OwnClaim,
  type OwnClaims,
} from "./claims.js";

const MOST_ATTEMPTS = 20;

/** Why a claim was not made, or does not stay. */
export type Refusal = Extract<Answer, { state: "refused" | "queue-full" | "capacity-mismatch" }>;

/** The queue ahead of one of our claims, as last read. */
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
  | { readonly state: "raced" }
  /** It was made, and taken away before it was seen. */
  | { readonly state: "missing" }
  /** It was not made. */
  | Refusal;

/** The claims in the way, and how to stop watching them. */
export interface Blockers<L extends ListedClaim> {
  readonly blockers: readonly L[];
  readonly unwatch: () => void;
}

/**
 * What differs between the engines while a claim lives; `ClaimDriver`: when it ends. What can be known without a request
 * is answered without a promise: a free lock goes through all of this.
 */
export interface QueueDriver<C extends OwnClaim, L extends ListedClaim> extends ClaimDriver<C> {
  readonly claims: OwnClaims<C>;
  /** A claim for this request, on a session that lasts long enough; it is not sent yet. */
  prepare(request: ClaimRequest): C | Promise<C>;
  enter(claim: C, request: ClaimRequest, attempt: number): Promise<Entry<L>>;
  /** Looks at the queue, and writes the metadata if it has changed; `undefined` if the claim is not there. */
  look(claim: C, request: ClaimRequest): Promise<Look<L> | undefined>;
  /** The claims that are in the way; with `notify` it is called when one of them leaves, or has left already. */
  blockers(claim: C, ahead: readonly L[], notify?: () => void): Blockers<L> | Promise<Blockers<L>>;
  /** The first granted answer: a fixed or a minimal time begins. `false`: the claim has changed, look again. */
  grant(claim: C, request: ClaimRequest, look: Look<L>): boolean | Promise<boolean>;
  /**
   * For a sticky claim that was granted at once: from its ticket on `onWanted` is called when a claim of another process
   * comes behind it, or a try of one is refused. `undefined`: it is wanted already, or no watch stands in time.
   */
  listen(claim: C, onWanted: () => void): Promise<(() => void) | undefined>;
  /** A try was refused because of this sticky claim: its process is told. */
  tellWanted(holder: L, claim: C): Promise<void>;
  renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]>;
  /** Ends the sessions that are not in use; the others end by themselves. */
  close(inUse: ReadonlySet<C["session"]>): Promise<void>;
}

const TRAITS: Omit<Traits, "engine"> = {
  reach: "network",
  fencing: true,
  queueing: true,
  notifications: true,
  tellsHolder: true,
  ttl: "session",
  expiryGranularityMs: 2_000,
  caveats: [
    "Tokens are numbers that the servers count: they go back when the servers are restored from a backup, or start with empty data.",
  ],
};

/** What an engine consists of, besides its queue. */
export interface SessionParts {
  readonly engine: string;
  /** Those of this engine only. */
  readonly caveats: readonly string[];
  readonly tls: TlsSettings | undefined;
  /** The client library, where there is one. */
  readonly client?: () => string;
  readonly cells: CellStore;
  /** The live claims of one name, at most `limit` of them; `undefined` if there are none. */
  record(name: string, limit?: number): Promise<ResourceRecord | undefined>;
  /** The same for every name with this prefix. */
  records(prefix: string): AsyncIterable<ResourceRecord | undefined>;
  /** Takes a claim of any process away, and says whether it was there. */
  takeAway(claim: { readonly name: string; readonly id: string }, force: Force): Promise<boolean>;
  /** Where a request may find that its session is over: repeats it on the next session. */
  onNextSession?<T>(act: () => Promise<T>): Promise<T>;
}

/** The backend of engines whose claims live by a session, and whose waiters watch the claims ahead of them. */
export class SessionBackend<C extends OwnClaim, L extends ListedClaim> implements Backend {
  readonly traits: Traits;
  readonly cells: CellStore;
  readonly #parts: SessionParts;
  readonly #driver: QueueDriver<C, L>;
  readonly #claims: OwnClaims<C>;

  constructor(driver: QueueDriver<C, L>, parts: SessionParts) {
    const { engine, caveats, tls } = parts;
    this.traits = { engine, ...TRAITS, caveats: [...caveats, ...TRAITS.caveats, ...tlsCaveats(tls)] };
    this.cells = parts.cells;
    this.#parts = parts;
    this.#driver = driver;
    this.#claims = driver.claims;
  }

  get client(): string | undefined {
    return this.#parts.client?.();
  }

  claim(request: ClaimRequest): Promise<Answer> {
    const askedMs = nowMs();
    return this.#onNextSession(() => this.#claim(request, askedMs));
  }

  renew(requests: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    return this.#driver.renew(requests);
  }

  async release(named: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    if (typeof ending === "object") return this.#onNextSession(() => this.#parts.takeAway(named, ending));
    const claim = this.#claims.get(named.id);
    if (claim === undefined || (claim.left && ending === undefined)) return false;
    return this.#claims.release(claim, ending === "unused");
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    const records =
      "prefix" in query
        ? this.#parts.records(query.prefix)
        : [await this.#onNextSession(() => this.#parts.record(query.name, query.limit))];
    for await (const record of records) if (record !== undefined) yield record;
  }

  watch({ id }: { readonly name: string; readonly id: string }, notify: Notify): Unwatch {
    return this.#claims.watch(id, notify);
  }

  close(): Promise<void> {
    this.#claims.timers.close();
    return this.#driver.close(this.#claims.sessionsInUse());
  }

  #onNextSession<T>(act: () => Promise<T>): Promise<T> {
    return this.#parts.onNextSession?.(act) ?? act();
  }

  async #claim(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const { id, ticket } = request;
    const claim = this.#claims.get(id);
    if (claim?.unwanted) {
      // It was refused, and its removal failed: the same request again must not find it, and be granted by it.
      if (claim.session.gone) this.#claims.forget(claim);
      else await this.#claims.remove(claim);
      return this.#claim(request, askedMs);
    }
    if (claim?.ticket === undefined) {
      return ticket === undefined ? this.#enter(request, askedMs) : this.#driver.goneOf(id);
    }
    if (claim.left || (ticket !== undefined && ticket !== claim.ticket)) return this.#driver.goneOf(id);
    return this.#ask(request, claim, askedMs);
  }

  async #enter(request: ClaimRequest, askedMs: number): Promise<Answer> {
    const { name } = request;
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
      const preparing = this.#claimFor(request);
      const claim = preparing instanceof Promise ? await preparing : preparing;
      const entry = await this.#driver.enter(claim, request, attempt);
      if (entry.state === "raced") continue;
      if (entry.state === "known") return this.#ask(request, claim, askedMs);
      if (entry.state === "missing") return this.#claims.goneAfter(claim);
      if (entry.state !== "entered") {
        this.#claims.forget(claim);
        return entry;
      }
      const judging = refusalOf(this.#driver, claim, request, entry.ahead);
      const refusal = judging instanceof Promise ? await judging : judging;
      if (refusal === undefined) return this.#answer(request, claim, entry, askedMs);
      await this.#claims.release(claim);
      return refusal;
    }
    throw backendError(`"${name}" changes too fast to enter its queue.`, { name, retryable: true });
  }

  #claimFor(request: ClaimRequest): C | Promise<C> {
    const known = this.#claims.get(request.id);
    if (known !== undefined && !known.session.gone) return known;
    const add = (claim: C) => {
      this.#claims.add(claim);
      return claim;
    };
    const prepared = this.#driver.prepare(request);
    return prepared instanceof Promise ? prepared.then(add) : add(prepared);
  }

  async #ask(request: ClaimRequest, claim: C, askedMs: number): Promise<Answer> {
    claim.sticky = request.sticky === true;
    const look = await this.#driver.look(claim, request);
    if (look !== undefined) return this.#answer(request, claim, look, askedMs);
    if (request.ticket !== undefined) return this.#claims.goneAfter(claim);
    this.#claims.forget(claim);
    return this.#enter(request, askedMs);
  }

  async #answer(request: ClaimRequest, claim: C, look: Look<L>, askedMs: number): Promise<Answer> {
    const { ticket = 0n } = claim;
    claim.stopWatching();
    const finding = this.#driver.blockers(claim, look.ahead, () => this.#claims.notify(claim));
    const { blockers, unwatch } = finding instanceof Promise ? await finding : finding;
    if (this.#claims.has(claim)) claim.stopWatching = unwatch;
    else unwatch(); // It was taken away meanwhile.
    if (blockers.length > 0) {
      claim.waited = true;
      const remainingMs = claim.remainingMs(askedMs, request.ttlMs);
      return { state: "waiting", ticket, remainingMs, changeInMs: Infinity };
    }
    if (claim.grantedAtMs !== undefined)
      return { state: "granted", ticket, remainingMs: claim.remainingMs(askedMs) };
    const granting = this.#driver.grant(claim, request, look);
    const granted = granting instanceof Promise ? await granting : granting;
    if (!granted) return this.#ask(request, claim, askedMs);
    const tells = claim.sticky && !claim.waited && (await this.#listen(claim));
    const answer = { state: "granted", ticket, remainingMs: claim.remainingMs(askedMs) } as const;
    return tells ? { ...answer, tells } : answer;
  }

  /** Whether its process is told from now on when another one wants it. */
  async #listen(claim: C): Promise<boolean> {
    let wanted = false;
    const onWanted = () => {
      wanted = true;
      this.#claims.wanted(claim);
    };
    const stop = await this.#driver.listen(claim, onWanted).catch(() => undefined);
    if (stop === undefined) return false;
    const listens = !wanted && this.#claims.has(claim);
    if (listens) claim.stopListening = stop;
    else stop();
    return listens;
  }
}

/** Why a claim with these ahead of it cannot stay, if so. */
export function refusalOf<C extends OwnClaim, L extends ListedClaim>(
  driver: Pick<QueueDriver<C, L>, "blockers" | "tellWanted">,
  claim: C,
  request: ClaimRequest,
  ahead: readonly L[],
): Refusal | Promise<Refusal | undefined> | undefined {
  const inForce = capacityOf(ahead) ?? claim.capacity;
  if (inForce !== claim.capacity) return { state: "capacity-mismatch", capacity: inForce };
  if (request.queue && request.maxWaiters === undefined) return undefined;
  return refusalBehind(driver, claim, request, ahead);
}

async function refusalBehind<C extends OwnClaim, L extends ListedClaim>(
  driver: Pick<QueueDriver<C, L>, "blockers" | "tellWanted">,
  claim: C,
  { queue, maxWaiters }: ClaimRequest,
  ahead: readonly L[],
): Promise<Refusal | undefined> {
  const { blockers } = await driver.blockers(claim, ahead);
  if (blockers.length === 0) return undefined;
  const waiters = ahead.length - grantedOf(ahead, claim.capacity);
  if (queue && waiters < (maxWaiters ?? Infinity)) return undefined;
  const [holder] = ahead;
  // Behind a first waiter the holder knows already; and a refusal is no failure if it cannot be told.
  if (waiters === 0 && holder?.sticky) await driver.tellWanted(holder, claim).catch(() => undefined);
  return queue ? { state: "queue-full", waiters } : { state: "refused" };
}

/** The answer to a claim that is still there, with these ahead of it; `wanted`: it is sticky, and others are behind it. */
export function renewalOf(
  claim: OwnClaim,
  ahead: readonly ListedClaim[],
  remainingMs: number,
  wanted = false,
): Renewal {
  if (worthWatching(ahead, claim.weight, claim.capacity).length > 0)
    return { state: "waiting", remainingMs, changeInMs: Infinity };
  const held = { state: "held", remainingMs } as const;
  return wanted ? { ...held, wanted } : held;
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
