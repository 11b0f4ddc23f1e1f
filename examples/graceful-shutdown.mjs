// A process that is told to go (`kill <pid>`, a rolling update) finishes what it does under its locks, gives
// them back, and then ends as it would have without us. Start it, and send it SIGTERM.
import { setTimeout as sleep } from "node:timers/promises";
import { connect, isLockError } from "locktender";

const locks = await connect(process.argv[2] ?? "memory:", {
  // Callbacks get 5 s to finish; then their signals abort, and they get 1 s more.
  closeOnSignals: { drain: "5s", abort: "1s" },
});
const queue = locks.mutex("payments");

for (let payment = 1; ; payment++) {
  try {
    await queue.run(async ({ signal }) => {
      console.log(`payment ${payment} begins`);
      await sleep(500, undefined, { signal });
      console.log(`payment ${payment} is done`);
    });
  } catch (error) {
    if (!isLockError(error, "closed")) throw error;
    console.log("no new payment: we are going down");
    break;
  }
}
