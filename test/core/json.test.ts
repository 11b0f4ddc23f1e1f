import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { createLocks, type LeaseLostError, type LockEvent, StaleTokenError } from "locktender";
import { fence } from "locktender/fence";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test } from "vitest";

/** What people write to a log, or send to a page of their own. */
const inJson = (value: unknown) => JSON.parse(JSON.stringify(value));

test("whatever carries a token can be written as JSON: views, errors and events", async () => {
  const events: LockEvent[] = [];
  await using locks = createLocks(memory(), { onEvent: (event) => events.push(event) });
  const lease = await locks.mutex("x").acquire({ note: "mine" });
  const token = String(lease.token);
  const mine = { token, note: "mine", owner: { pid: process.pid } };

  expect(inJson(await locks.inspect("x"))).toMatchObject({ name: "x", holders: [mine], waiters: [] });
  expect(inJson(await locks.mutex("x").tryRun(() => {}))).toMatchObject({ ran: false, blockers: [mine] });
  const timeout: unknown = await locks
    .mutex("x")
    .acquire({ wait: 10 })
    .catch((error: unknown) => error);
  const shown = { name: "LockTimeoutError", code: "timeout", lock: "x", retryable: true, blockers: [mine] };
  expect(inJson(timeout)).toMatchObject({ ...shown, message: expect.stringMatching(/^gave up on "x"/) });
  expect(inJson(await locks.forceRelease("x", { reason: "stuck" }))).toMatchObject([mine]);
  expect(inJson(lease.signal.reason)).toMatchObject({ name: "LeaseLostError", loss: "forced", token });
  const told = ["acquired", "lost", "forced"].map((type) => expect.objectContaining({ type, token }));
  expect(inJson(events)).toEqual(expect.arrayContaining(told));
});

test("a logger that copies errors field by field writes no inexact token, and times that can be read", async () => {
  const events: LockEvent[] = [];
  await using locks = createLocks(memory(), { onEvent: (event) => events.push(event) });
  const lease = await locks.mutex("x").acquire();
  await locks.forceRelease("x", { reason: "stuck" });
  const lost = lease.signal.reason as LeaseLostError;
  const stale = new StaleTokenError("x", { resource: "x", token: 5n, highest: 7n });
  expect([lost.token, stale.token, stale.highest]).toEqual([lease.token, 5n, 7n]);
  const copied: Record<string, unknown> = {};
  for (const error of [lost, stale]) for (const key in error) copied[key] = error[key as keyof typeof error];
  expect(Object.values(copied).filter((value) => typeof value === "bigint")).toEqual([]);
  expect(inJson({ ...lost, message: lost.message })).toMatchObject({ loss: "forced", lock: "x" });
  const [held] = events.flatMap((event) => (event.type === "lost" ? [event.heldMs] : []));
  expect(String(held)).toMatch(/^\d+(\.\d{1,3})?$/);
});

test("a refusal of a fence can be, too", async () => {
  const refusals: unknown[] = [];
  const listen = (message: unknown) => refusals.push(inJson(message));
  subscribe("locktender:fence-refused", listen);
  onTestFinished(() => void unsubscribe("locktender:fence-refused", listen));
  const resource = { dialect: "postgres", query: async () => [{ token: "7" }] } as const;
  const stale: unknown = await fence(resource, { name: "x", token: 5n }).catch((error: unknown) => error);
  expect(inJson(stale)).toMatchObject({ code: "stale-token", token: "5", highest: "7", resource: "x" });
  expect(refusals).toMatchObject([{ name: "x", token: "5", highest: "7" }]);
});
