// Opens a SQLite backend in a child process. In: its options; or the name of a library, and the file, for a
// database that is brought along.
import { compiled, fromBuild } from "./compiled.mjs";

const { sqlite } = await compiled("backends/sqlite/index.js");

export default async ({ library, ...options }) => {
  if (library === undefined) return sqlite(options);
  const Database = fromBuild(library);
  return sqlite({ database: new Database(options.file) });
};
