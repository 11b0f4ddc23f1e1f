// Opens a SQLite backend in a child process, from the same build that the tests use.
const { sqlite } = await import(
  process.env.LOCKTENDER_DIST === undefined
    ? "../../dist/backends/sqlite/index.js"
    : `file://${process.env.LOCKTENDER_DIST}/backends/sqlite/index.js`
);

export default (options) => sqlite(options);
