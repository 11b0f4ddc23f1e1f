// A process that holds a lock, waits for it a second time, listens to both, and then has nothing left to do.
// In: the file. Out: nothing; it ends by itself.
import { ask, sqlite } from "./child.mjs";

const backend = sqlite({ file: process.argv[2] });
for (const id of ["holder", "waiter"]) {
  backend.watch({ name: "x", id }, () => {});
  await backend.claim({ ...ask, name: "x", id });
}
// Long enough for everything to be set up that listens.
await new Promise((resolve) => setTimeout(resolve, 400));
process.disconnect();
