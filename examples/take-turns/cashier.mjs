// One cashier: a process that waits for its turn at the till, reads the next order number, works, and writes.
// It talks to its parent, which keeps the order book and plays the accidents.
import { setTimeout as sleep } from "node:timers/promises";
import { connect, isLockError } from "locktender";

const [url = "sqlite:", who = "somebody", turns = "1", ttlMs = "1500", workMs = "700"] = process.argv.slice(2);
const STEPS = 14;

const tell = (/** @type {object} */ message) => process.send?.({ ...message, at: process.hrtime.bigint() });

/** Answers come in the order of the questions. */
const questions = [];
const ask = (/** @type {object} */ message) => {
  tell(message);
  return new Promise((resolve) => questions.push(resolve));
};
process.on("message", (answer) => questions.shift()?.(answer));
process.on("disconnect", () => process.exit());
process.on("SIGINT", () => {}); // Ctrl-C reaches the whole group; the parent decides what becomes of us.

const locks = await connect(url, {
  ttl: Number(ttlMs),
  owner: { service: "till", instance: who },
  closeOnSigterm: { drain: 0, abort: "1s" },
});
const till = locks.mutex("till");

/** One order, under the lock. Resolves to whether it stands in the book. */
async function takeOrder() {
  tell({ type: "waits" });
  return till.run({ note: `a turn of ${who}` }, async (lease) => {
    const number = await ask({ type: "in", token: lease.token });
    for (let step = 1; step <= STEPS; step++) {
      await sleep(Number(workMs) / STEPS);
      if (!lease.held) {
        tell({ type: "doubts", token: lease.token });
        break; // A careful program would return here.
      }
      tell({ type: "works", done: step / STEPS });
    }
    // Written without another look, as by a program whose pause came a moment later: the book must decide.
    const written = await ask({ type: "write", number, token: lease.token });
    tell({ type: "out", token: lease.token });
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
    tell({ type: "lost", loss: error.loss, aborted: true });
    if (error.loss === "closed") break;
  }
}
tell({ type: "done" });
await locks.close();
process.disconnect?.();
