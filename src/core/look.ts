import type { Connection } from "./connection.js";
import { type ResourceView, viewOf } from "./inspect.js";

/** The state of one resource now, or `undefined` if nobody is there. */
export async function lookAt(
  connection: Connection,
  name: string,
  limit?: number,
): Promise<ResourceView | undefined> {
  const query = limit === undefined ? { name } : { name, limit };
  for await (const record of connection.backend.list(query)) return viewOf(record);
  return undefined;
}
