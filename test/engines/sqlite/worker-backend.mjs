// Opens a SQLite backend in a child process. In: its options; or the file and, as `brought`, the name of the
// library of a database that is brought along;
// or the file and `libraries`, which the processes take in turn.
import { mkdirSync } from "node:fs";
import { compiled, fromBuild } from "../../support/compiled.mjs";

const { sqlite } = await compiled("backends/sqlite/index.js");

export default async ({ brought, libraries, ...options }) => {
  if (libraries !== undefined) return sqlite({ ...options, library: inTurn(libraries, options.file) });
  if (brought === undefined) return sqlite(options);
  const Database = fromBuild(brought);
  return sqlite({ database: new Database(options.file) });
};

/** The first process that makes a folder has that turn. */
function inTurn(libraries, file) {
  for (let turn = 0; ; turn++) {
    try {
      mkdirSync(`${file}.turn-${turn}`);
      return libraries[turn % libraries.length];
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
  }
}
