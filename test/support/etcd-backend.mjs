// How a child process of the suite opens etcd.
const { etcd } = await import(
  process.env.LOCKTENDER_DIST === undefined
    ? "locktender/etcd"
    : `file://${process.env.LOCKTENDER_DIST}/backends/etcd/index.js`
);

export default etcd;
