import { expect, test } from "vitest";
import { type OwnConnection, SmallPool } from "#lib/backends/sql/small-pool.js";
import { sleep } from "#lib/testing/suite/bench.js";

/** A pool whose connections are made of nothing, and those that it has opened. */
function poolOf(most: number, open: () => Promise<void> = () => sleep(1)) {
  const opened: { lose(): void; closed: boolean }[] = [];
  const make = (): OwnConnection<number> => {
    const state = { lose: () => {}, closed: false };
    return {
      connection: opened.push(state),
      open: (lost) => {
        state.lose = lost;
        return open();
      },
      close: async () => {
        state.closed = true;
      },
      ref: () => {},
      unref: () => {},
    };
  };
  return { pool: new SmallPool(most, make, () => new Error("it has ended")), opened };
}

test("once it has ended it opens nothing, and whoever waits for a connection is told", async () => {
  const { pool, opened } = poolOf(1);
  const used = await pool.order().coming;
  const waiting = pool.order().coming.catch((error: unknown) => error);
  await pool.end();
  used.giveBack(false);
  expect(await waiting).toMatchObject({ message: "it has ended" });
  await expect(pool.order().coming).rejects.toThrow("it has ended");
  await sleep(20);
  expect(opened.map(({ closed }) => closed)).toEqual([true]);
});

test("a connection that cannot be made is tried once for each who wants it", async () => {
  const { pool, opened } = poolOf(4, () => Promise.reject(new Error("nobody is there")));
  for (const attempt of [1, 2]) {
    await expect(pool.order().coming).rejects.toThrow("nobody is there");
    await sleep(20);
    expect(opened).toHaveLength(attempt);
  }
});

test("whoever has given up is forgotten: what comes next goes to somebody who still waits", async () => {
  let fail = (_: Error) => {};
  const { pool, opened } = poolOf(1, () => new Promise((_, reject) => (fail = reject)));
  const [gone, waiting] = [pool.order(), pool.order()];
  gone.cancel();
  fail(new Error("nobody is there"));
  await expect(waiting.coming).rejects.toThrow("nobody is there");
  expect(opened).toHaveLength(1);
});

test("a connection that is lost makes room for another one, whoever has it", async () => {
  const { pool, opened } = poolOf(1);
  const used = await pool.order().coming;
  const waiting = pool.order();
  opened[0]?.lose();
  const next = await waiting.coming;
  expect([used.connection, next.connection]).toEqual([1, 2]);
  used.giveBack(false);
  expect(pool.take()).toBeUndefined();
  next.giveBack(false);
  opened[1]?.lose();
  expect(pool.take()).toBeUndefined();
});
