import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLocks } from "locktender";
import { sqlite } from "locktender/sqlite";
import { median, timeMs } from "./bare.mjs";

const ROUNDS = 9;
const CYCLES = 2_000;

/** Uncontended, in one process, on a file. */
export async function* measure() {
  const folder = mkdtempSync(join(tmpdir(), "locktender-bench-"));
  const locks = createLocks(sqlite({ file: join(folder, "locks.db") }));
  const mutex = locks.mutex("bench");
  const rates = [];
  for (let round = -1; round < ROUNDS; round++) {
    const tookMs = await timeMs(async () => {
      for (let index = 0; index < CYCLES; index++) {
        const lease = await mutex.acquire();
        await lease.release();
      }
    });
    if (round >= 0) rates.push((CYCLES / tookMs) * 1_000);
  }
  await locks.close();
  rmSync(folder, { recursive: true });
  yield `${median(rates).toFixed(0)} cycles/s (median of ${ROUNDS} rounds; slowest ${Math.min(...rates).toFixed(0)})`;
}
