import { Patience } from "../../core/patience.js";
import type { Driver } from "./driver.js";
import { SCHEMA_VERSION } from "./routines.js";

/** Making tables waits for all others who want to make them. */
const MAKING_MS = 30_000;

/** One use of a connection, bounded in time. */
export type Use<Connection> = <T>(
  work: (connection: Connection) => Promise<T>,
  patience?: Patience,
) => Promise<T>;

/** Looks whether everything is there in the right version, and makes it if it is missing and may be made. */
export async function ensureSchema<Connection>(
  { schema, meaningOf }: Driver<Connection>,
  { where, mayCreate }: { readonly where: string; readonly mayCreate: boolean },
  use: Use<Connection>,
): Promise<void> {
  const isThere = async (connection: Connection): Promise<boolean> => {
    let found: number;
    try {
      found = Number(await schema.version(connection));
    } catch (error) {
      if (meaningOf(error) === "missing") return false;
      throw error;
    }
    if (found !== SCHEMA_VERSION) throw schema.otherVersion(found);
    return true;
  };
  const problem = await use((connection) => schema.unusable(connection, where));
  if (problem !== undefined) throw problem;
  if (await use(isThere)) return;
  if (!mayCreate) throw schema.missing();
  await use((connection) => schema.create(connection, () => isThere(connection)), new Patience(MAKING_MS));
}
