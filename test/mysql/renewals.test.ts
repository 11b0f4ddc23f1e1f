import { expect, onTestFinished, test } from "vitest";
import { backend, newPrefix, poolOf, request, sleep } from "./tools.js";

const SHORT_MS = 300;

test("a claim that is just being renewed is not taken for dead by whoever asks", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const held = request("a", { ttlMs: SHORT_MS });
  expect((await one.claim(held)).state).toBe("granted");
  const connection = await poolOf(1).getConnection();
  onTestFinished(() => connection.destroy());
  // A renewal that has begun before the claim ran out.
  await connection.query("START TRANSACTION");
  await connection.query(`UPDATE ${prefix}_claims SET deadline_us = deadline_us + 60000000 WHERE id = ?`, [
    held.id,
  ]);
  await sleep(SHORT_MS + 100);
  const asking = one.claim(request("a"));
  await sleep(200);
  await connection.query("COMMIT");
  expect((await asking).state).toBe("waiting");
});
