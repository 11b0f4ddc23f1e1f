// A process that holds a lock, waits for it a second time, listens to both, and then has nothing left to do.
// In: the file. Out: nothing; it ends by itself.
const { sqlite } = await import(
  process.env.LOCKTENDER_DIST === undefined
    ? "../../dist/backends/sqlite/index.js"
    : `file://${process.env.LOCKTENDER_DIST}/backends/sqlite/index.js`
);

const backend = sqlite({ file: process.argv[2] });
const owner = { instance: "idler", host: "here", pid: process.pid };
const ask = {
  weight: 1,
  capacity: 1,
  ttlMs: 10_000,
  fixed: false,
  minHoldMs: 0,
  queue: true,
  owner,
  note: "",
};
for (const id of ["holder", "waiter"]) {
  backend.watch({ name: "x", id }, () => {});
  await backend.claim({ name: "x", id, ...ask });
}
// Long enough for everything to be set up that listens.
await new Promise((resolve) => setTimeout(resolve, 400));
process.disconnect();
