import type {
  Answer,
  Backend,
  CellChange,
  CellStore,
  ClaimRequest,
  Ending,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  StoredCell,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import { TicketFloor } from "../../engine-kit/queue.js";
import { MetadataText } from "../../engine-kit/replies.js";
import type { SqlConnection } from "./connection.js";
import { Poller } from "./poller.js";
import {
  bitOf,
  encodeText,
  forceValues,
  readAnswer,
  readRecord,
  readRenewal,
  textOf,
  ticketOf,
  toUs,
} from "./replies.js";
import { claim, names, readCell, records, release, renew, writeCell } from "./routines.generated.js";
import { Sweeper } from "./sweeper.js";
import { WaiterRegistry } from "./waiter-registry.js";

const NAMES_PER_PAGE = 200;
const NO_LIMIT = 2 ** 31 - 1;
/** The column of releases before, which cannot be null. The note is in the object that the column `owner` keeps. */
const NO_NOTE = encodeText("");

/** What every database promises. */
export const DATABASE_TRAITS = {
  fencing: true,
  queueing: true,
  notifications: false,
  ttl: "claim",
  expiryGranularityMs: 100,
} as const satisfies Partial<Traits>;

export const REPLICATION_CAVEAT =
  "Asynchronous replication: if a replica is promoted that does not have the last commits, two may believe they hold a lock. Fencing tokens contain that, if the new server's clock is not more than an hour behind, or was not seen by a process that comes to a name first.";

/** Notifies claims of this process; where there is none, the poller does all of it. */
export interface SqlNotifications {
  /** What is written into claims, for other processes to notify this one; empty if they cannot. */
  readonly channel: string;
  /** The number of the subscription by which this process hears of its claims now; 0 while it may miss something. */
  readonly subscription?: number;
  begin?(): void;
  close(): Promise<void>;
}

interface SqlParts {
  readonly traits: () => Traits;
  readonly client: () => string | undefined;
  readonly connection: SqlConnection;
  readonly retentionMs: number;
  readonly notifications?: (waiters: WaiterRegistry, poller: Poller) => SqlNotifications;
}

/** The operations of a backend on any database that runs our routines. */
export class SqlBackend implements Backend {
  readonly cells: CellStore = {
    read: (name) => this.#readCell(name),
    write: (name, change) => this.#writeCell(name, change),
  };
  readonly #parts: SqlParts;
  readonly #connection: SqlConnection;
  readonly #waiters = new WaiterRegistry();
  readonly #floor = new TicketFloor();
  readonly #poller: Poller;
  readonly #sweeper: Sweeper;
  readonly #notifications: SqlNotifications | undefined;
  readonly #metadata = new MetadataText();

  constructor(parts: SqlParts) {
    this.#parts = parts;
    this.#connection = parts.connection;
    this.#poller = new Poller(this.#connection, this.#waiters);
    this.#sweeper = new Sweeper(this.#connection, parts.retentionMs);
    this.#notifications = parts.notifications?.(this.#waiters, this.#poller);
    this.#poller.enabled = true;
  }

  get traits(): Traits {
    return this.#parts.traits();
  }

  get client(): string | undefined {
    return this.#parts.client();
  }

  async claim(request: ClaimRequest): Promise<Answer> {
    const { name, id, ticket = 0n, weight, capacity, ttlMs, fixed, minHoldMs, queue, maxWaiters } = request;
    const values = [
      ...[name, id, ticket, weight, capacity, toUs(ttlMs), fixed ? 1 : 0, toUs(minHoldMs), queue ? 1 : 0],
      ...[maxWaiters === undefined ? 0 : 1, maxWaiters ?? 0],
      ...[this.#metadata.of(request), NO_NOTE, this.#notifications?.channel ?? ""],
      this.#floor.lowest(),
    ];
    const subscription = this.#notifications?.subscription ?? 0;
    const [row] = await this.#connection.call(claim, values, () => this.#waiters.sent(id));
    const answer = readAnswer(row);
    if (ticket === 0n && "ticket" in answer) this.#floor.observe(answer.ticket);
    this.#waiters.answered(request, answer, "ticket" in answer ? answer.ticket : undefined);
    this.#sweeper.used();
    // A claim that was there before, because an answer was lost, may have others behind it of which it was never told.
    if (!request.sticky || answer.state !== "granted" || !bitOf(row, "enters")) return answer;
    // The same is true unless one subscription stands from the sending on.
    const tells = subscription > 0 && subscription === this.#notifications?.subscription;
    return tells && this.#waiters.mayStay(id) ? { ...answer, tells } : answer;
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const sorted = inOrder(claims.map((request, index) => ({ request, index })));
    const { renewalsPerCall } = this.#connection;
    const answers: Renewal[] = [];
    for (let from = 0; from < sorted.length; from += renewalsPerCall) {
      const some = sorted.slice(from, from + renewalsPerCall);
      const list = listOf(some.map(({ request }) => request));
      const rows = await this.#connection.call(renew, [JSON.stringify(list)]);
      for (const [at, { request, index }] of some.entries()) {
        const answer = readRenewal(rows[at]);
        this.#waiters.answered(request, answer, request.ticket);
        answers[index] = answer;
      }
    }
    return answers;
  }

  async release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    const force = typeof ending === "object" ? ending : undefined;
    const kind = ending === undefined ? 0 : force === undefined ? 1 : 2;
    const [row] = await this.#connection.call(release, [
      ...[claim.name, claim.id, kind === 0 ? 1 : 0, kind],
      ...forceValues(force),
      this.#floor.lowest(),
    ]);
    this.#poller.released(claim.name, force !== undefined);
    return bitOf(row, "was_there");
  }

  async *list(
    query: { readonly name: string; readonly limit?: number } | { readonly prefix: string },
  ): AsyncIterable<ResourceRecord> {
    if ("name" in query) {
      const record = await this.#record(query.name, query.limit);
      if (record !== undefined) yield record;
      return;
    }
    for (let from: string | undefined = query.prefix; from !== undefined; ) {
      const rows = await this.#connection.call(names, [from, NAMES_PER_PAGE]);
      const page: readonly string[] = rows.map((row) => textOf(row, "name"));
      const wanted = page.filter((name) => name.startsWith(query.prefix));
      for (const name of wanted) {
        const record = await this.#record(name);
        if (record !== undefined) yield record;
      }
      // Names with one prefix stand together. The next greater name: none has control characters in it.
      const more = page.length === NAMES_PER_PAGE && wanted.length === page.length;
      from = more ? `${page.at(-1)}\u0001` : undefined;
    }
  }

  async #record(name: string, limit = NO_LIMIT): Promise<ResourceRecord | undefined> {
    const rows = await this.#connection.call(records, [name, limit]);
    const claims = rows.map((row) => readRecord(name, row));
    const [first] = claims;
    if (first === undefined) return undefined;
    return { name, capacity: first.capacity, claims: claims.map(({ capacity: _, ...claim }) => claim) };
  }

  watch(claim: { readonly name: string; readonly id: string }, notify: Notify): Unwatch {
    this.#notifications?.begin?.();
    return this.#waiters.watch(claim, notify);
  }

  async close(): Promise<void> {
    this.#poller.enabled = false;
    this.#waiters.clear();
    await this.#notifications?.close();
    await this.#connection.close();
  }

  async #readCell(name: string): Promise<StoredCell | undefined> {
    const [row] = await this.#connection.call(readCell, [name]);
    if (row === undefined) return undefined;
    return { version: ticketOf(row, "version"), text: textOf(row, "body") };
  }

  async #writeCell(name: string, { text, ifVersion, keepMs = 0 }: CellChange): Promise<bigint | undefined> {
    const expected = ifVersion === undefined ? -1n : (ifVersion ?? 0n);
    const deletes = text === undefined ? 1 : 0;
    const values = [name, expected, deletes, text ?? null, toUs(keepMs), this.#floor.lowest()];
    const [row] = await this.#connection.call(writeCell, values);
    this.#sweeper.used();
    const drawn = ticketOf(row, "drawn");
    this.#floor.observe(drawn);
    return bitOf(row, "written") ? drawn : undefined;
  }
}

/** By name and ticket, which is the order in which every request locks claims: so there is no deadlock. */
function inOrder<T extends { readonly request: RenewRequest }>(renewals: readonly T[]): T[] {
  return [...renewals].sort(({ request: a }, { request: b }) => {
    if (a.name !== b.name) return a.name < b.name ? -1 : 1;
    return a.ticket < b.ticket ? -1 : a.ticket > b.ticket ? 1 : 0;
  });
}

/** The list that `renew` walks over, of claims in order. */
function listOf(claims: readonly RenewRequest[]): readonly object[] {
  return claims.map(({ name, id, ticket, ttlMs }, index) => {
    const follows = claims[index - 1]?.name === name;
    const isAlone = !follows && claims[index + 1]?.name !== name;
    return {
      name,
      id,
      ticket: String(ticket),
      ttl_us: toUs(ttlMs),
      // The only one of its name; or the first of several, for which those of the name are looked at together.
      is_alone: isAlone ? 1 : 0,
      is_first: follows || isAlone ? 0 : 1,
    };
  });
}
