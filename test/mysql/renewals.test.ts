import { expect, onTestFinished, test } from "vitest";
import { askMariadb } from "../servers/mariadb.js";
import { backend, eventually, newPrefix, poolOf, request, SERVER, sleep } from "./tools.js";

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

test("who gives up at a row that is locked for long does not stay there on the server", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix, connections: 2, timeout: "200ms" });
  await one.claim(request("a"));
  const connection = await poolOf(1).getConnection();
  onTestFinished(() => connection.destroy());
  await connection.query("START TRANSACTION");
  await connection.query(`UPDATE ${prefix}_resources SET last_ticket = last_ticket + 1`);
  const gaveUp = { code: "backend", retryable: true };
  for (let time = 0; time < 3; time++) await expect(one.claim(request("a"))).rejects.toMatchObject(gaveUp);
  const stuck = `SELECT id FROM information_schema.processlist WHERE info LIKE 'UPDATE%${prefix}_resources%'`;
  expect(await askMariadb(SERVER.url, stuck)).toHaveLength(3);
  await eventually("all have gone", 8_000, async () => (await askMariadb(SERVER.url, stuck)).length === 0);
});
