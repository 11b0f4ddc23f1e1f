import type { Driver } from "../sql/driver.js";
import type { Routine } from "../sql/routine.js";
import { ENGINE, openPool, type PgClientLike } from "./client.js";
import { callOf, rowsOf } from "./dialect.js";
import { explain, isUnprepared, meaningOf } from "./errors.js";
import type { PostgresSettings } from "./options.js";
import { schemaDriver } from "./schema.js";

/** As they come: the program may have taught the library to read numbers in its own way. */
const types = { getTypeParser: () => (value: string) => value };

export function postgresDriver(settings: PostgresSettings): Driver<PgClientLike> {
  const { target, prefix } = settings;
  const calls = new Map<Routine, { readonly text: string; readonly name: string }>();
  // A statement that stays prepared is state of the session: not in a pool of the caller's, or behind a pooler.
  let prepares = target.pool === undefined;
  const known = (routine: Routine) => {
    const found = calls.get(routine);
    if (found !== undefined) return found;
    // Behind a pooler a name may be known from another client of ours: the same name must mean the same text.
    const made = { text: callOf(prefix, routine), name: `${prefix} ${routine.name}` };
    calls.set(routine, made);
    return made;
  };
  return {
    engine: ENGINE,
    renewalsPerCall: 500,
    open: () => openPool(settings),
    call: (client, routine, values) => {
      const { text, name } = known(routine);
      return client.query(prepares ? { text, values, types, name } : { text, values, types }).then(
        ({ rows }) => rowsOf(routine, rows),
        (error: unknown) => {
          if (isUnprepared(error)) prepares = false;
          throw error;
        },
      );
    },
    meaningOf,
    explain,
    schema: schemaDriver(prefix),
  };
}
