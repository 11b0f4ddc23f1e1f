import type { ResourceRecord } from "./backend.js";
import type { Connection } from "./connection.js";

/** Many may give up at once, in a long queue: nobody reads all of it. */
export const MOST_LOOKED_AT = 100;

/** The state of one resource now, or `undefined` if nobody is there. */
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

interface Looking {
  readonly look: Look;
  /** For all who come while it is under way: what it sees may be older than what they were told. */
  next?: Look;
}

const underWay = new WeakMap<Connection, Map<string, Looking>>();

/** The beginning of the queue, for those who tell why they give up: many do so at the same moment, of the same names. */
export function lookTogether(connection: Connection, name: string): Look {
  const looks = underWay.get(connection) ?? new Map<string, Looking>();
  underWay.set(connection, looks);
  const begin = (): Look => {
    const look = lookAt(connection, name, MOST_LOOKED_AT).finally(() => looks.delete(name));
    looks.set(name, { look });
    return look;
  };
  const known = looks.get(name);
  if (known === undefined) return begin();
  known.next ??= known.look.then(begin, begin);
  return known.next;
}
