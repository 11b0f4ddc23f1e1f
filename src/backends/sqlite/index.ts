import type {
  Answer,
  Backend,
  ClaimRecord,
  ClaimRequest,
  Ending,
  Renewal,
  RenewRequest,
  ResourceRecord,
  Ring,
  Traits,
  Unwatch,
} from "../../core/backend.js";
import type { Owner } from "../../core/claim.js";
import { Bell } from "./bell.js";
import { claim, forcedNews, leave, renew } from "./claims.js";
import { LockFile } from "./lock-file.js";
import { readSqliteOptions, type SqliteOptions, type SqliteSettings } from "./options.js";
import type { Session } from "./session.js";
import type { Statements } from "./statements.js";
import { Sweeper } from "./sweeper.js";

export type { SqliteOptions } from "./options.js";
export type { SqliteDatabase, SqliteStatement } from "./statements.js";

const TRAITS: Traits = {
  engine: "sqlite",
  reach: "machine",
  fencing: true,
  queueing: true,
  ringing: false,
  ttl: "claim",
  expiryGranularityMs: 50,
  caveats: [
    "Locks are shared by the processes of one machine that use the same file; after a reboot nobody holds anything.",
    "The file must lie on a local disk. Network file systems are refused where they are recognised, which is on Linux.",
    "A process that is stopped in the middle of a transaction makes all others wait until it runs on or is killed.",
    "Deleting the file while it is in use takes all locks away; holders learn of it at their next renewal.",
    "Tokens of a name that was idle for longer than the retention grow only if the wall clock was not set back by more than that.",
  ],
};

const RENEWALS_PER_STEP = 128;
const NAMES_PER_PAGE = 64;

/** Locks in an embedded SQLite file, shared by all processes of one machine. */
export function sqlite(options: SqliteOptions = {}): Backend {
  return new SqliteBackend(readSqliteOptions(options));
}

class SqliteBackend implements Backend {
  readonly traits = TRAITS;
  readonly #file: LockFile;
  readonly #bell: Bell;
  readonly #sweeper: Sweeper;

  constructor(settings: SqliteSettings) {
    this.#file = new LockFile(settings, () => this.#bell.lost());
    this.#bell = new Bell(this.#file);
    this.#sweeper = new Sweeper(settings.retentionMs);
  }

  // The bell hears of each step before anything else of this process can run: no ring falls in between.

  claim(request: ClaimRequest): Promise<Answer> {
    return this.#file.use((session) => {
      const { boot } = session;
      const { answer, removed } = session.transact((db, nowUs) => claim(db, request, { nowUs, boot }));
      this.#bell.answered(request, answer, "ticket" in answer ? answer.ticket : undefined);
      if (removed) this.#bell.removed([request.name]);
      if (this.#sweeper.sweep(session)) this.#bell.removedAnywhere();
      return answer;
    });
  }

  async renew(claims: readonly RenewRequest[]): Promise<readonly Renewal[]> {
    const answers: Renewal[] = [];
    for (let from = 0; from < claims.length; from += RENEWALS_PER_STEP) {
      const some = claims.slice(from, from + RENEWALS_PER_STEP);
      answers.push(...(await this.#file.use((session) => this.#renew(session, some))));
    }
    return answers;
  }

  #renew(session: Session, claims: readonly RenewRequest[]): readonly Renewal[] {
    const { boot } = session;
    const { answers, removed } = session.transact((db, nowUs) => renew(db, claims, { nowUs, boot }));
    for (const [index, answer] of answers.entries()) {
      const claim = claims[index];
      if (claim !== undefined) this.#bell.answered(claim, answer, claim.ticket);
    }
    this.#bell.removed(removed);
    return answers;
  }

  release(claim: { readonly name: string; readonly id: string }, ending?: Ending): Promise<boolean> {
    return this.#file.use((session) => {
      const { boot } = session;
      const { answer, removed } = session.transact((db, nowUs) => leave(db, claim, ending, { nowUs, boot }));
      if (removed) this.#bell.removed([claim.name]);
      if (answer.forced !== undefined && typeof ending === "object") {
        this.#bell.forced(claim, answer.forced, forcedNews(ending.reason, ending.by));
      }
      return answer.found;
    });
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
      const page: readonly string[] = await this.#names(from, query.prefix);
      for (const name of page) {
        const record = await this.#record(name);
        if (record !== undefined) yield record;
      }
      // The next greater name: none has control characters in it.
      from = page.length < NAMES_PER_PAGE ? undefined : `${page.at(-1)}\u0001`;
      // A long list must not keep timers from running.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #record(name: string, limit = -1): Promise<ResourceRecord | undefined> {
    return this.#file.use((session) => session.read((db, nowUs) => recordOf(db, name, limit, nowUs)));
  }

  /** Names are kept in the order of their bytes, so those with one prefix stand together. */
  async #names(from: string, prefix: string): Promise<readonly string[]> {
    const rows = await this.#file.use((session) =>
      session.read((db) => db.names.all({ from, most: NAMES_PER_PAGE })),
    );
    return rows.map(({ name }) => name).filter((name) => name.startsWith(prefix));
  }

  watch(claim: { readonly name: string; readonly id: string }, ring: Ring): Unwatch {
    return this.#bell.watch(claim, ring);
  }

  async close(): Promise<void> {
    this.#bell.close();
    await this.#file.close();
  }
}

/** The live claims of a name as they stand at this moment. */
function recordOf(db: Statements, name: string, limit: number, nowUs: number): ResourceRecord | undefined {
  const rows = db.records.all({ name, nowUs, limit });
  const [first] = rows;
  if (first === undefined) return undefined;
  const claims = rows.map(
    (row): ClaimRecord => ({
      name,
      id: row.id,
      ticket: BigInt(row.ticket),
      weight: row.weight,
      owner: JSON.parse(row.owner) as Owner,
      note: row.note,
      ageMs: (nowUs - (row.granted_us ?? row.came_us)) / 1000,
      remainingMs: (row.deadline_us - nowUs) / 1000,
    }),
  );
  return { name, capacity: first.capacity, claims };
}
