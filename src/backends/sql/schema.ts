import { countIn } from "../../engine-kit/reply.js";
import { RequestTimeout } from "../../engine-kit/request-timeout.js";
import type { Driver } from "./driver.js";
import { tooNewError } from "./errors.js";
import { readBy } from "./replies.js";
import { REVISION } from "./routines.js";

/** Making tables waits for all other processes that want to make them. */
const MAKING_MS = 30_000;

/** One use of a connection, bounded in time. */
export type Use<Connection> = <T>(
  work: (connection: Connection) => Promise<T>,
  requestTimeout?: RequestTimeout,
) => Promise<T>;

/**
 * Looks whether the routines of this release are there, and makes them if they are missing and may be made. Those
 * of other releases stay: during a rolling deploy both are in use, on the same tables.
 */
export async function ensureSchema<Connection>(
  { schema, meaningOf }: Driver<Connection>,
  { where, mayCreate }: { readonly where: string; readonly mayCreate: boolean },
  use: Use<Connection>,
): Promise<void> {
  const check = (breaking: unknown) => {
    const found = readBy(countIn, breaking);
    if (found > REVISION) throw tooNewError(schema.what, found, REVISION);
  };
  const isThere = async (connection: Connection): Promise<boolean> => {
    try {
      check(await schema.breaking(connection));
      return true;
    } catch (error) {
      if (meaningOf(error) === "missing") return false;
      throw error;
    }
  };
  // Thrown inside, because a connection that leads to a read-only server must not be used again.
  await use(async (connection) => {
    const problem = await schema.unusable(connection, where);
    if (problem !== undefined) throw problem;
  });
  if (await use(isThere)) return;
  if (!mayCreate) throw schema.missing();
  await use((connection) => schema.create(connection, check), new RequestTimeout(MAKING_MS));
}
