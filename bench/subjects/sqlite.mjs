import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks } from "locktender";
import { sqlite } from "locktender/sqlite";
import { median, timeMs } from "../lib/stats.mjs";

const ROUNDS = 9;
const CYCLES = 2_000;
const LIBRARIES = ["libsql", "node:sqlite", "better-sqlite3"];

/** Uncontended, and refused because it is held: in one process, on a file per library, in turns. */
export async function* measure() {
  const folder = mkdtempSync(join(tmpdir(), "locktender-bench-"));
  const opened = [];
  for (const library of LIBRARIES) {
    const file = join(folder, `${library.replace(":", "-")}.db`);
    const locks = createLocks(sqlite({ file, library }));
    const isThere = await locks.inspect("bench").then(
      () => true,
      () => false,
    );
    if (isThere) opened.push({ library, locks, cycles: [], refusals: [] });
  }
  for (let round = -1; round < ROUNDS; round++) {
    for (const { locks, cycles, refusals } of opened) {
      const cyclesMs = await timeMs(() => takeTurns(locks.mutex("bench")));
      const held = await locks.mutex("held").acquire();
      const refusalsMs = await timeMs(() => askInVain(locks.mutex("held")));
      await held.release();
      if (round < 0) continue;
      cycles.push((CYCLES / cyclesMs) * 1_000);
      refusals.push((CYCLES / refusalsMs) * 1_000);
    }
  }
  const [first] = opened;
  for (const { library, locks, cycles, refusals } of opened) {
    await locks.close();
    const ratio = (median(cycles) / median(first.cycles)).toFixed(2);
    const refusedRatio = (median(refusals) / median(first.refusals)).toFixed(2);
    yield `${library}: ${median(cycles).toFixed(0)} cycles/s (${ratio} of ${first.library}), ${median(refusals).toFixed(0)} refusals/s (${refusedRatio})`;
  }
  rmSync(folder, { recursive: true });
}

async function takeTurns(mutex) {
  for (let index = 0; index < CYCLES; index++) {
    const lease = await mutex.acquire();
    await lease.release();
  }
}

async function askInVain(mutex) {
  for (let index = 0; index < CYCLES; index++) await mutex.tryAcquire({ within: null });
}
