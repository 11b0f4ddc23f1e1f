import { hasMethods, LockError, partOf } from "../../core/errors.js";
import { absent, type LowestVersions, refuseOlder } from "../../engine-kit/client-library.js";
import type { Row } from "../sql/replies.js";

/** A query as `mysql2` takes it. */
export interface MysqlQuery {
  readonly sql: string;
  readonly values?: unknown[];
  readonly rowsAsArray?: boolean;
  readonly typeCast?: boolean;
  readonly nestTables?: boolean;
}

/** What a pool of the caller's may have set otherwise. */
export const AS_USUAL = { rowsAsArray: false, typeCast: true, nestTables: false };

/** What we use of a connection of `mysql2/promise`. */
export interface MysqlConnectionLike {
  readonly threadId?: number | null;
  /** What the pool keeps; this is only how it is handed out. */
  readonly connection?: object;
  execute(query: MysqlQuery): Promise<[unknown, unknown]>;
  query(query: MysqlQuery): Promise<[unknown, unknown]>;
  release(): void;
  destroy(): void;
}

export function isConnection(connection: unknown): connection is MysqlConnectionLike {
  return hasMethods(connection, ["execute", "query", "release", "destroy"]);
}

/** What we use of a pool of `mysql2/promise`. */
export interface MysqlPromisePool {
  getConnection(): Promise<MysqlConnectionLike>;
}

/** A pool of `mysql2/promise`, which has one of `mysql2` in it, or one of `mysql2`, which makes the other. */
export type MysqlPoolLike =
  | (MysqlPromisePool & { readonly pool: object })
  | { getConnection(done: never): unknown; promise(): MysqlPromisePool };

/** Pools of other libraries have a `getConnection`, too; but their connections would not take our questions. */
export function isMysqlPool(pool: unknown): pool is MysqlPoolLike {
  if (!hasMethods(pool, ["getConnection"])) return false;
  return hasMethods(pool, ["promise"]) || hasMethods(partOf(pool, "pool"), ["getConnection"]);
}

/** A connection, of ours or of the caller's pool. */
export type MysqlSession = Pick<MysqlConnectionLike, "execute" | "query">;

/** A connection of `mysql2`, as it is made, with what it takes to keep it. */
export interface OwnClient {
  readonly threadId: number | null;
  promise(): MysqlSession;
  connect(done: (error: unknown) => void): void;
  query(sql: string, done: () => void): void;
  end(done: () => void): void;
  on(event: "error" | "end", listener: () => void): void;
  /** Another one as soon as TLS has begun. */
  readonly stream: { destroy(): void; ref(): void; unref(): void };
}

interface MysqlLibrary {
  createConnection(config: object): OwnClient;
}

export const LOWEST_VERSIONS: LowestVersions<"mysql2"> = { mysql2: "3.9.0" };

/** The library is only needed where the caller gives a URL, and no pool. */
export async function library(): Promise<MysqlLibrary> {
  const module = await mysql2();
  if (module === undefined) {
    throw new LockError("unsupported", 'a mysql:// URL needs the package "mysql2": npm install mysql2.');
  }
  await refuseOlder("mysql2", LOWEST_VERSIONS);
  return module.default;
}

async function mysql2(): Promise<{ readonly default: MysqlLibrary } | undefined> {
  try {
    const module: unknown = await import("mysql2");
    return module as { default: MysqlLibrary };
  } catch (error) {
    return absent("mysql2", error);
  }
}

export function connected(client: OwnClient): Promise<void> {
  return new Promise((resolve, reject) => {
    client.connect((error) => (error ? reject(error) : resolve()));
  });
}

export async function closed(client: OwnClient, broken: boolean): Promise<void> {
  // The library's own way would wait for the server to leave first.
  if (broken) client.stream.destroy();
  else await new Promise<void>((resolve) => client.end(resolve));
}

/** A query answers with rows; a call with a list of sets of rows, and a header at the end. */
export function rowsOf(results: unknown): readonly Row[] {
  if (!Array.isArray(results)) return [];
  const sets = results.filter((set): set is Row[] => Array.isArray(set));
  return sets.length > 0 ? sets.flat() : (results as Row[]);
}

/** The first row of what a statement answers, if there is one. */
export async function firstRow(session: MysqlSession, sql: string): Promise<Row | undefined> {
  const [results] = await session.query({ sql, ...AS_USUAL });
  return rowsOf(results)[0];
}
