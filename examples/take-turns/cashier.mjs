// One cashier: a process that waits for its turn at the till, reads the next order number, works, and writes.
// It tells its parent what it does, and asks it for the order book.
import { setTimeout as sleep } from "node:timers/promises";
import { connect, isLockError } from "locktender";

const [url = "sqlite:", who = "a cashier", turns = "1", ttlMs = "1500", workMs = "700"] =
  process.argv.slice(2);
const STEPS = 14;

// All processes of a machine share this clock, so the parent can compare what they say.
const tell = (message) => process.send({ ...message, at: process.hrtime.bigint() });

/** Answers come in the order of the questions. */
const questions = [];
const ask = (message) => {
  tell(message);
  return new Promise((resolve) => questions.push(resolve));
};
process.on("message", (answer) => questions.shift()?.(answer));
process.on("disconnect", () => process.exit());
process.on("SIGINT", () => {}); // Ctrl-C reaches the whole group; the parent ends us in order.

const locks = await connect(url, {
  ttl: Number(ttlMs),
  owner: { service: "till", instance: who },
  closeOnSignals: { drain: 0, abort: "1s" },
});
const till = locks.mutex("till");

/** One order, under the lock. Resolves to whether it stands in the book. */
function takeOrder() {
  tell({ type: "waits" });
  return till.run({ note: "takes an order" }, async (lease) => {
    lease.signal.addEventListener("abort", () => tell({ type: "told", loss: lease.signal.reason.loss }));
    const number = await ask({ type: "in", token: lease.token });
    for (let step = 1; step <= STEPS; step++) {
      await sleep(Number(workMs) / STEPS);
      const { held } = lease;
      tell({ type: "works", done: step / STEPS, held });
      if (!held) break; // A careful program returns here.
    }
    // This one writes all the same, like a program whose pause came a moment later: the book has to decide.
    const written = await ask({ type: "write", number, token: lease.token });
    tell({ type: "out" });
    return written;
  });
}

await ask({ type: "ready" });
for (let written = 0; written < Number(turns); ) {
  try {
    if (await takeOrder()) written++;
  } catch (error) {
    if (isLockError(error, "closed")) break;
    if (!isLockError(error, "lost")) throw error;
    tell({ type: "rejected", loss: error.loss });
  }
}
tell({ type: "done" });
await locks.close();
process.disconnect();
