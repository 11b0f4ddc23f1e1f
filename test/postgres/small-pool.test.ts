import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import { type OwnClient, SmallPool } from "#lib/backends/postgres/small-pool.js";
import { sleep } from "./tools.js";

/** A pool whose connections are made of nothing, and how many of them it has opened. */
function poolOf(most: number, connect: () => Promise<void> = () => sleep(1)) {
  const opened: OwnClient[] = [];
  const pool = new SmallPool(most, () => {
    const client = Object.assign(new EventEmitter(), {
      connect,
      end: async () => {},
      query: async () => ({ rows: [] }),
      ref: () => {},
      unref: () => {},
    });
    opened.push(client);
    return client;
  });
  return { pool, opened };
}

test("once it has ended it opens nothing, and whoever waits for a connection is told", async () => {
  const { pool, opened } = poolOf(1);
  const used = await pool.connect();
  const waiting = pool.connect().catch((error: unknown) => error);
  await pool.end();
  used.release();
  expect(await waiting).toMatchObject({ code: "closed" });
  await expect(pool.connect()).rejects.toMatchObject({ code: "closed" });
  await sleep(20);
  expect(opened).toHaveLength(1);
});

test("a connection that cannot be made is tried once for each who wants it", async () => {
  const { pool, opened } = poolOf(4, () => Promise.reject(new Error("nobody is there")));
  for (const attempt of [1, 2]) {
    await expect(pool.connect()).rejects.toThrow("nobody is there");
    await sleep(20);
    expect(opened).toHaveLength(attempt);
  }
});
