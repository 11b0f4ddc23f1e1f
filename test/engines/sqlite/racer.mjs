// A process of its own: opens the lock file when told to, then takes and gives back one lock again and again.
// In: the file, how often. Out: by message, the tickets it got, in order.
import { once } from "node:events";
import { ask, sqlite } from "./child.mjs";

const [file, times] = process.argv.slice(2);
process.send("ready");
await once(process, "message");

const backend = sqlite({ file, busyTimeout: "20s" });
const tickets = [];
for (let turn = 0; turn < Number(times); ) {
  const claim = { name: "race", id: `${process.pid}-${turn}` };
  const answer = await backend.claim({ ...ask, ...claim, queue: false });
  if (answer.state === "refused") {
    await new Promise((resolve) => setTimeout(resolve, 1));
    continue;
  }
  tickets.push(String(answer.ticket));
  if (!(await backend.release(claim))) throw new Error("the claim was not ours");
  turn++;
}
await backend.close();
process.send(tickets, () => process.disconnect());
