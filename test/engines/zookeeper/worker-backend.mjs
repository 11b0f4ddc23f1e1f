// How a child process of the suite opens ZooKeeper.
const { zookeeper } = await import(
  process.env.LOCKTENDER_DIST === undefined
    ? "locktender/zookeeper"
    : `file://${process.env.LOCKTENDER_DIST}/backends/zookeeper/index.js`
);

export default zookeeper;
