// Four processes take turns at one lock in a SQLite file. One of them is killed in the middle of its work,
// another one is stopped for so long that the next one is let in. Run it with: npm start
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { connect } from "locktender";
import { openView } from "./picture.mjs";
import { Story } from "./story.mjs";
import { judge } from "./verdict.mjs";

const NAMES = ["Anna", "Ben", "Cleo", "Dan"];
const ORDERS_EACH = 3;
/** Anna is killed in her second turn. */
const EXPECTED_ORDERS = 1 + (NAMES.length - 1) * ORDERS_EACH;
const TTL_MS = 1_500;
const WORK_MS = 850;
const LOOK_EVERY_MS = 50;
const LONGEST_MS = 45_000;
const CASHIER = fileURLToPath(new URL("./cashier.mjs", import.meta.url));

if (process.platform === "win32") {
  console.error(
    "This example stops and wakes processes with SIGSTOP and SIGCONT, which Windows does not have.",
  );
  process.exit(1);
}

const folder = await mkdtemp(join(tmpdir(), "locktender-"));
const url = `sqlite:${join(folder, "locks.db")}`;
const locks = await connect(url);
const story = new Story();
const children = new Set();
/** What ends it before its time: Ctrl-C, or an accident that is not part of the story. */
let ended;
const end = (how) => {
  ended ??= how;
};

for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => end({ signal }));
process.stdout.on("error", () => end({ signal: "SIGPIPE" })); // The reader of our output has gone.

for (const who of NAMES) startCashier(who);
const processes = [...story.cashiers.values()].map(({ who, child }) => `${who} ${child.pid}`);
console.log(`The lock is in ${url}\nThe processes are ${processes.join(", ")}\n`);
const view = openView();

await until(() => [...story.cashiers.values()].every(({ state }) => state === "ready"));
for (const { child } of story.cashiers.values()) {
  child.send("go");
  await sleep(50); // So that they come in the order of their names.
}
await until(() => children.size === 0);
view.end(story);
await endChildren();
await locks.close();
await rm(folder, { recursive: true, force: true });
process.exitCode = report();

function startCashier(who) {
  const args = [url, who, ORDERS_EACH, TTL_MS, WORK_MS].map(String);
  const child = fork(CASHIER, args, {
    serialization: "advanced",
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let errors = "";
  child.stderr.on("data", (text) => {
    errors += text;
  });
  child.on("exit", (code) => {
    children.delete(child);
    if (code !== 0 && story.cashiers.get(who).state !== "killed")
      end({ problem: `${who} failed. ${errors}` });
  });
  children.add(child);
  story.add(who, child);
}

/** Draws and looks at the queue until something is so, or the story has to end. */
async function until(isSo) {
  while (!isSo() && ended === undefined) {
    if (story.elapsedMs > LONGEST_MS) end({ problem: `not done after ${LONGEST_MS / 1000} s.` });
    story.look(await locks.inspect("till"));
    view.draw(story);
    await sleep(LOOK_EVERY_MS);
  }
  story.look(await locks.inspect("till"));
}

function endChildren() {
  const endings = [...children].map(async (child) => {
    const late = setTimeout(() => child.kill("SIGKILL"), 2_000);
    child.kill("SIGCONT"); // A stopped process would not hear the next signal.
    child.kill("SIGTERM");
    await once(child, "exit");
    clearTimeout(late);
  });
  return Promise.all(endings);
}

/** Says what was seen; the exit code. */
function report() {
  if (ended?.signal !== undefined) {
    console.log(`\nEnded by ${ended.signal}. All processes of this example have ended.`);
    return 128 + constants.signals[ended.signal];
  }
  const { expiryGranularityMs: granularityMs } = locks.guarantees;
  const facts = judge(story, { expectedOrders: EXPECTED_ORDERS, ttlMs: TTL_MS, granularityMs });
  const failed = facts.filter(({ ok }) => !ok);
  console.log("\nWhat was seen:");
  for (const { ok, text } of facts) console.log(`  ${ok ? "yes" : "NO "}  ${text}`);
  if (ended !== undefined) console.log(`\nIt ended early: ${ended.problem}`);
  const good = failed.length === 0 && ended === undefined;
  console.log(good ? "\nAll of it held." : `\n${failed.length} of ${facts.length} did not hold.`);
  return good ? 0 : 1;
}
