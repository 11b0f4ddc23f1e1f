import { expect, onTestFinished, test } from "vitest";
import type { SqlConnection } from "#lib/backends/sql/connection.js";
import { Poller } from "#lib/backends/sql/poller.js";
import { WaiterRegistry } from "#lib/backends/sql/waiter-registry.js";
import { eventually, sleep } from "#lib/testing/suite/bench.js";

/** A database that says of every claim how many are ahead of it. */
function connectionOf(aheadOf: (ticket: number) => number) {
  const asked = { looks: 0 };
  const connection: SqlConnection = {
    renewalsPerCall: 1,
    call: async (_, [list]) => {
      asked.looks++;
      const claims = JSON.parse(String(list)) as readonly { name: string; ticket: string }[];
      return claims.map((claim) => ({ kind: "line", ...claim, ahead: aheadOf(Number(claim.ticket)) }));
    },
    close: async () => {},
  };
  return { connection, asked };
}

test("where nothing moves, looks become rare, also at more names than one look asks about", async () => {
  const { connection, asked } = connectionOf(() => 2);
  const waiters = new WaiterRegistry();
  const poller = new Poller(connection, waiters);
  onTestFinished(() => {
    poller.enabled = false;
  });
  for (let n = 0; n < 600; n++) {
    const claim = { name: `n:${n}`, id: `id-${n}` };
    waiters.watch(claim, () => {});
    waiters.answered(claim, { state: "waiting", ticket: 1n, remainingMs: 1_000, changeInMs: 1_000 }, 1n);
  }
  poller.enabled = true;
  await sleep(1_000);
  // Each pause is longer than the one before, up to a tenth of a second.
  expect(asked.looks).toBeGreaterThan(5);
  expect(asked.looks).toBeLessThan(40);
});

test("waiters that are let in together are told in a few looks, and not one by one", async () => {
  const readers = 100;
  // The last of them is a writer.
  const { connection, asked } = connectionOf((ticket) => (ticket > readers ? 2 : 0));
  const waiters = new WaiterRegistry();
  const poller = new Poller(connection, waiters);
  onTestFinished(() => {
    poller.enabled = false;
  });
  const told: number[] = [];
  for (let n = readers + 1; n > 0; n--) {
    const claim = { name: "n", id: `id-${n}` };
    const ticket = BigInt(n);
    waiters.watch(claim, () => told.push(n));
    waiters.answered(claim, { state: "waiting", ticket, remainingMs: 1_000, changeInMs: 1_000 }, ticket);
  }
  poller.enabled = true;
  await eventually("all readers are told", 5_000, () => told.length === readers);
  expect(asked.looks).toBeLessThan(20);
  expect(told).toEqual(Array.from({ length: readers }, (_, index) => index + 1));
});
