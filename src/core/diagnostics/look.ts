import type { ResourceRecord } from "../backend.js";
import type { Connection } from "../connection.js";
import { FreshFlight } from "../single-flight.js";

/** Many waiters may give up at once, in a long queue: no person reads all of it. */
export const MOST_LOOKED_AT = 100;

/** The queue of one name now, or `undefined` if it has no claims. */
export async function lookAt(
  connection: Connection,
  name: string,
  limit?: number,
): Promise<ResourceRecord | undefined> {
  const query = limit === undefined ? { name } : { name, limit };
  for await (const record of connection.backend.list(query)) return record;
  return undefined;
}

type Look = ReturnType<typeof lookAt>;

const underWay = new WeakMap<Connection, Map<string, FreshFlight<Awaited<Look>>>>();

/**
 * The beginning of the queue, for waiters that tell why they give up: many do so at the same moment, of the same names.
 * A look that is under way may be older than what its caller was told, so the caller gets the next one.
 */
export function lookTogether(connection: Connection, name: string): Look {
  const looks = underWay.get(connection) ?? new Map<string, FreshFlight<Awaited<Look>>>();
  underWay.set(connection, looks);
  const flight = looks.get(name) ?? new FreshFlight();
  looks.set(name, flight);
  return flight
    .run(() => lookAt(connection, name, MOST_LOOKED_AT))
    .finally(() => {
      if (flight.isIdle) looks.delete(name);
    });
}
