// Opens an etcd backend in a child process of the suite, from the same build that the tests use.
const { etcd } = await import(
  process.env.LOCKTENDER_DIST === undefined
    ? "../../../dist/backends/etcd/index.js"
    : `file://${process.env.LOCKTENDER_DIST}/backends/etcd/index.js`
);

export default (options) => etcd(options);
