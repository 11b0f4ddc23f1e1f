import type { Driver } from "../sql/driver.js";
import type { Routine } from "../sql/routines.js";
import { routineName } from "../sql/routines.js";
import { openPool } from "./client.js";
import { callOf, columnsOf, rowsOf } from "./dialect.js";
import { ENGINE, explain, isUnprepared, meaningOf } from "./errors.js";
import { AS_TEXTS, type PgQuery, type PgSession } from "./library.js";
import type { PostgresSettings } from "./options.js";
import { schemaDriver } from "./schema.js";

/** `onLibrary` is told which library was chosen to make connections of ours. */
export function postgresDriver(
  settings: PostgresSettings,
  onLibrary: (name: string) => void,
): Driver<PgSession> {
  const { target, prefix } = settings;
  const calls = new Map<Routine, PgQuery>();
  // A statement that stays prepared is state of the session: not in a pool of the caller's, or behind a pooler.
  let prepares = target.pool === undefined;
  const known = (routine: Routine) => {
    const found = calls.get(routine);
    if (found !== undefined) return found;
    const made = {
      text: callOf(prefix, routine),
      types: AS_TEXTS,
      columns: columnsOf(routine),
      // Behind a pooler a name may be known from another client of ours: the same name must mean the same text.
      ...(prepares ? { name: `${prefix} ${routineName(routine.name)}` } : undefined),
    };
    calls.set(routine, made);
    return made;
  };
  return {
    engine: ENGINE,
    renewalsPerCall: 500,
    open: () => openPool(settings, onLibrary),
    call: (client, routine, values) => {
      return client.query({ ...known(routine), values }).then(
        (result) => rowsOf(routine, result),
        (error: unknown) => {
          if (prepares && isUnprepared(error)) {
            prepares = false;
            calls.clear();
          }
          throw error;
        },
      );
    },
    meaningOf,
    explain,
    schema: schemaDriver(prefix),
  };
}
