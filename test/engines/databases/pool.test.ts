import { expect, test } from "vitest";
import { borrowedPool } from "#lib/backends/sql/open-pool.js";
import { Pool, type PoolMember, type Stop } from "#lib/backends/sql/pool.js";
import { sleep } from "#lib/testing/suite/bench.js";

/** A pool whose connections are made of nothing, and those that it has opened. */
function poolOf(most: number, open: () => Promise<void> = () => sleep(1)) {
  const opened: { lose(): void; closed: boolean; stopped: number; answer: Stop }[] = [];
  const connect = async (lost: () => void): Promise<PoolMember<number>> => {
    const state = { lose: lost, closed: false, stopped: 0, answer: "told" as Stop };
    const connection = opened.push(state);
    await open();
    return {
      connection,
      close: async () => {
        state.closed = true;
      },
      stop: async () => {
        state.stopped++;
        return state.answer;
      },
      ref: () => {},
      unref: () => {},
    };
  };
  return { pool: new Pool({ engine: "the database", most, timeoutMs: 20 }, connect), opened };
}

test("once it has ended it opens nothing, and a caller that waits for a connection is told", async () => {
  const { pool, opened } = poolOf(1);
  const used = await pool.order().coming;
  const waiting = pool.order().coming.catch((error: unknown) => error);
  await pool.end();
  used.giveBack(false);
  expect(await waiting).toMatchObject({ code: "closed" });
  await expect(pool.order().coming).rejects.toMatchObject({ code: "closed" });
  await sleep(20);
  expect(opened.map(({ closed }) => closed)).toEqual([true]);
});

test("a connection that cannot be made is tried once for each caller that wants it", async () => {
  const { pool, opened } = poolOf(4, () => Promise.reject(new Error("no server is there")));
  for (const attempt of [1, 2]) {
    await expect(pool.order().coming).rejects.toThrow("no server is there");
    await sleep(20);
    expect(opened).toHaveLength(attempt);
  }
});

test("a caller that has given up is forgotten: what comes next goes to a caller that still waits", async () => {
  let fail = (_: Error) => {};
  const { pool, opened } = poolOf(1, () => new Promise((_, reject) => (fail = reject)));
  const [gone, waiting] = [pool.order(), pool.order()];
  gone.cancel();
  fail(new Error("no server is there"));
  await expect(waiting.coming).rejects.toThrow("no server is there");
  expect(opened).toHaveLength(1);
});

test("a connection that is lost makes room for another one, whichever caller has it", async () => {
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

test("a connection whose request hangs counts until the request has ended, and is told to stop meanwhile", async () => {
  const { pool, opened } = poolOf(1);
  const used = await pool.order().coming;
  let end = () => {};
  used.abandon(new Promise<void>((resolve) => (end = resolve)));
  const waiting = pool.order();
  await sleep(100);
  expect(opened).toHaveLength(1);
  expect(opened[0]?.stopped).toBeGreaterThan(1);
  end();
  expect((await waiting.coming).connection).toBe(2);
  expect(opened.map(({ closed }) => closed)).toEqual([true, false]);
});

test.each(["absent", "unreachable"] as const)(
  "a request that the server is %s for makes room for another connection",
  async (answer) => {
    const { pool, opened } = poolOf(1);
    const used = await pool.order().coming;
    (opened[0] as { answer: Stop }).answer = answer;
    used.abandon(new Promise(() => {}));
    expect((await pool.order().coming).connection).toBe(2);
    expect(opened[0]?.closed).toBe(true);
  },
);

test("when the server turns out to be read-only, no connection of that moment is used again", async () => {
  const { pool, opened } = poolOf(2);
  const [used, idle] = await Promise.all([pool.order().coming, pool.order().coming]);
  idle.giveBack(false);
  pool.replace();
  used.giveBack(false);
  expect(opened.map(({ closed }) => closed)).toEqual([true, true]);
  expect(pool.take()).toBeUndefined();
  expect((await pool.order().coming).connection).toBe(3);
});

test("a pool of the caller's: a request that has given up does not stay in the queue", async () => {
  const pool = borrowedPool({
    engine: "the database",
    connect: async () => ({}),
    identify: async () => undefined,
    giveBack: () => {},
    stop: async () => "told" as Stop,
    most: 1,
    borrowedFrom: 1,
    timeoutMs: 20,
  });
  const used = await pool.order().coming;
  const [gone, waiting] = [pool.order(), pool.order()];
  gone.cancel();
  used.giveBack(false);
  (await waiting.coming).giveBack(false);
});

test("a pool of the caller's is asked once for each request, and each connection goes back after it", async () => {
  const asked = { connects: 0, back: 0 };
  const pool = borrowedPool({
    engine: "the database",
    connect: async () => {
      asked.connects++;
      await sleep(1);
      return {};
    },
    identify: async () => undefined,
    giveBack: () => void asked.back++,
    stop: async () => "told" as Stop,
    most: Infinity,
    borrowedFrom: 1,
    timeoutMs: 20,
  });
  const use = async () => (await pool.order().coming).giveBack(false);
  await Promise.all([use(), use(), sleep(1).then(use), sleep(1).then(use)]);
  await sleep(10);
  expect(asked).toEqual({ connects: 4, back: 4 });
});

test("a pool of the caller's that cannot connect is asked once for each request", async () => {
  let connects = 0;
  const pool = borrowedPool({
    engine: "the database",
    connect: async (): Promise<object> => {
      connects++;
      await sleep(1);
      throw new Error("no connection is left");
    },
    identify: async () => undefined,
    giveBack: () => {},
    stop: async () => "told" as Stop,
    most: Infinity,
    borrowedFrom: 1,
    timeoutMs: 20,
  });
  const failed = await Promise.allSettled([1, 2, 3].map(() => pool.order().coming));
  await sleep(10);
  expect(failed.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(connects).toBe(3);
});
