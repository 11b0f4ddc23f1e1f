// A process of one release: takes its turns at one thing, and prints when it was in, by a clock that all processes share.
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [, , file, name, turns, longestWorkMs] = process.argv;
const TASKS = 2;
const LONGEST_PAUSE_MS = 40;
const { exclusive } = await import(pathToFileURL(file).href);

async function task() {
  for (let turn = 0; turn < Number(turns); turn++) {
    await exclusive(name, async (signal) => {
      const from = process.hrtime.bigint();
      console.log(`in ${from}`);
      await sleep((0.5 + Math.random() / 2) * Number(longestWorkMs));
      signal.throwIfAborted();
      console.log(`out ${from} ${process.hrtime.bigint()}`);
    });
    await sleep(Math.random() * LONGEST_PAUSE_MS);
  }
}

// All begin when the last of them has started.
console.log("ready");
await once(process.stdin.resume(), "end");
await Promise.all(Array.from({ length: TASKS }, task));
process.exit();
