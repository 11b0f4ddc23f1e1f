import type { Driver } from "../sql/driver.js";
import type { Routine } from "../sql/routines.js";
import { openPool } from "./client.js";
import { callOf, rowsOf } from "./dialect.js";
import { ENGINE, explain, meaningOf } from "./errors.js";
import { AS_USUAL, type MysqlSession } from "./library.js";
import type { MysqlSettings } from "./options.js";
import { schemaDriver } from "./schema.js";

export function mysqlDriver(settings: MysqlSettings): Driver<MysqlSession> {
  const { prefix } = settings;
  const texts = new Map<Routine, string>();
  const textOf = (routine: Routine) => {
    const text = texts.get(routine) ?? callOf(prefix, routine);
    texts.set(routine, text);
    return text;
  };
  return {
    engine: ENGINE,
    renewalsPerCall: 100,
    open: () => openPool(settings),
    call: async (session, routine, values) => {
      // The library would send a bigint as a number that is not exact.
      const sent = values.map((value) => (typeof value === "bigint" ? String(value) : value));
      const [results] = await session.execute({ sql: textOf(routine), values: sent, ...AS_USUAL });
      return rowsOf(results);
    },
    meaningOf,
    explain,
    schema: schemaDriver(prefix),
  };
}
