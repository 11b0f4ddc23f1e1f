// Opens a Redis backend in a child process of the suite, from the same build that the tests use.
const { redis } = await import(
  process.env.LOCKTENDER_DIST === undefined
    ? "../../dist/backends/redis/index.js"
    : `file://${process.env.LOCKTENDER_DIST}/backends/redis/index.js`
);

export default (options) => redis(options);
