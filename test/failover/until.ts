import { setTimeout as sleep } from "node:timers/promises";

const SOON_MS = 30_000;
const ASK_EVERY_MS = 100;

/** Asks again until the answer is yes. A server that does not answer yet has not said no. */
export async function until(what: string, check: () => Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + SOON_MS;
  let cause: unknown;
  do {
    try {
      if (await check()) return;
    } catch (error) {
      cause = error;
    }
    await sleep(ASK_EVERY_MS);
  } while (performance.now() < deadlineMs);
  throw new Error(`not within ${SOON_MS} ms: ${what}`, { cause });
}
