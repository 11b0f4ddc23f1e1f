// Opens a SQLite backend in a child process, from the same build that the tests use. In: its options; or the
// name of a library, and the file, for a database that is brought along.
const { sqlite } = await import(
  process.env.LOCKTENDER_DIST === undefined
    ? "../../dist/backends/sqlite/index.js"
    : `file://${process.env.LOCKTENDER_DIST}/backends/sqlite/index.js`
);

export default async ({ library, ...options }) => {
  if (library === undefined) return sqlite(options);
  const { default: Database } = await import(library);
  return sqlite({ database: new Database(options.file) });
};
