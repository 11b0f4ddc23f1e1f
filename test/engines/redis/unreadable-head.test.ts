import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { expect, onTestFinished, test } from "vitest";
import { WHOLE } from "#lib/core/claim.js";
import { shared } from "../../servers/shared.js";

/** Heads of a release that is not written yet, and heads that were cut off or written by another program. */
const HEADS = [
  "x",
  "",
  "x 5 something of a later release",
  "f",
  "f 5",
  "f 5 id",
  "f 99999999999999999 id 1000 later",
  "o",
  "o id",
  "o id 5 5 5 later",
  "m",
  "m 5 5",
  "m 5 2147483647 1 5 1 0 5 5 5 later",
  "5 later",
  '{"v":2}',
];

test.each(HEADS)(
  "a head that the scripts cannot read is an error, never a grant and never a loss: %j",
  async (head) => {
    const { url } = await shared("redis");
    const prefix = `t${randomUUID().slice(0, 8)}`;
    const client = new Redis(url);
    const backend = redis({ client, prefix });
    onTestFinished(async () => {
      await backend.close();
      await client.quit();
    });
    const claim = { name: "x", id: "mine", ticket: 5n, ttlMs: 1_000 };
    const rest = { weight: WHOLE, capacity: WHOLE, fixed: false, minHoldMs: 0, queue: true, note: "" };
    const request = { ...claim, ...rest, owner: { instance: "i", host: "h", pid: 1 } };
    const key = `${prefix}:{x}`;
    await client.set(key, head);
    const refused = { code: "backend" };
    await expect.soft(backend.claim({ ...request, ticket: undefined })).rejects.toMatchObject(refused);
    await expect
      .soft(backend.claim({ ...request, ticket: undefined, minHoldMs: 5 }))
      .rejects.toMatchObject(refused);
    await expect.soft(backend.claim(request)).rejects.toMatchObject(refused);
    await expect.soft(backend.renew([claim])).rejects.toMatchObject(refused);
    await expect.soft(backend.release(claim)).rejects.toMatchObject(refused);
    const listing = async () => {
      for await (const record of backend.list({ name: "x" })) return record;
      return undefined;
    };
    await expect.soft(listing()).rejects.toMatchObject(refused);
    expect(await client.get(key)).toBe(head);
  },
);

test("a head that the scripts cannot read hides no other name in a listing", async () => {
  const { url } = await shared("redis");
  const prefix = `t${randomUUID().slice(0, 8)}`;
  const client = new Redis(url);
  const locks = createLocks(redis({ client, prefix }));
  onTestFinished(async () => {
    await locks.close();
    await client.quit();
  });
  await client.set(`${prefix}:{bad}`, "x");
  await locks.mutex("good").acquire();
  const names: string[] = [];
  for await (const { name } of locks.list()) names.push(name);
  expect(names).toEqual(["good"]);
  await expect(locks.inspect("bad")).rejects.toMatchObject({ code: "backend" });
});
