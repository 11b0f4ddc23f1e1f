import { expect, test } from "vitest";
import { borrowedPool } from "#lib/backends/sql/open-pool.js";
import { Pool, type PoolMember, type StopResult } from "#lib/backends/sql/pool.js";
import { seededRandom } from "#lib/testing/history-records.js";
import { sleep } from "#lib/testing/suite/bench.js";

/** A pool whose connections are made of nothing, and those that it has opened. */
function poolOf(most: number, open: () => Promise<void> = () => sleep(1)) {
  const opened: { lose(): void; closed: boolean; stopped: number; answer: StopResult }[] = [];
  const connect = async (lost: () => void): Promise<PoolMember<number>> => {
    const state = { lose: lost, closed: false, stopped: 0, answer: "repeat" as StopResult };
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
  const used = await pool.request().connection;
  const waiting = pool.request().connection.catch((error: unknown) => error);
  await pool.end();
  used.giveBack(false);
  expect(await waiting).toMatchObject({ code: "closed" });
  await expect(pool.request().connection).rejects.toMatchObject({ code: "closed" });
  await sleep(20);
  expect(opened.map(({ closed }) => closed)).toEqual([true]);
});

test("a connection that cannot be made is tried once for each caller that wants it", async () => {
  const { pool, opened } = poolOf(4, () => Promise.reject(new Error("no server is there")));
  for (const attempt of [1, 2]) {
    await expect(pool.request().connection).rejects.toThrow("no server is there");
    await sleep(20);
    expect(opened).toHaveLength(attempt);
  }
});

test("a caller that has given up is forgotten: what comes next goes to a caller that still waits", async () => {
  let fail = (_: Error) => {};
  const { pool, opened } = poolOf(1, () => new Promise((_, reject) => (fail = reject)));
  const [gone, waiting] = [pool.request(), pool.request()];
  gone.cancel();
  fail(new Error("no server is there"));
  await expect(waiting.connection).rejects.toThrow("no server is there");
  expect(opened).toHaveLength(1);
});

test("a connection that is lost makes room for another one, whichever caller has it", async () => {
  const { pool, opened } = poolOf(1);
  const used = await pool.request().connection;
  const waiting = pool.request();
  opened[0]?.lose();
  const next = await waiting.connection;
  expect([used.connection, next.connection]).toEqual([1, 2]);
  used.giveBack(false);
  expect(pool.take()).toBeUndefined();
  next.giveBack(false);
  opened[1]?.lose();
  expect(pool.take()).toBeUndefined();
});

test("a connection whose request hangs counts until the request has ended, and is told to stop meanwhile", async () => {
  const { pool, opened } = poolOf(1);
  const used = await pool.request().connection;
  let end = () => {};
  used.abandon(new Promise<void>((resolve) => (end = resolve)));
  const waiting = pool.request();
  await sleep(100);
  expect(opened).toHaveLength(1);
  expect(opened[0]?.stopped).toBeGreaterThan(1);
  end();
  expect((await waiting.connection).connection).toBe(2);
  expect(opened.map(({ closed }) => closed)).toEqual([true, false]);
});

test.each(["absent", "unreachable"] as const)(
  "a request that the server is %s for makes room for another connection",
  async (answer) => {
    const { pool, opened } = poolOf(1);
    const used = await pool.request().connection;
    (opened[0] as { answer: StopResult }).answer = answer;
    used.abandon(new Promise(() => {}));
    expect((await pool.request().connection).connection).toBe(2);
    expect(opened[0]?.closed).toBe(true);
  },
);

test("when the server turns out to be read-only, no connection of that moment is used again", async () => {
  const { pool, opened } = poolOf(2);
  const [used, idle] = await Promise.all([pool.request().connection, pool.request().connection]);
  idle.giveBack(false);
  pool.replace();
  used.giveBack(false);
  expect(opened.map(({ closed }) => closed)).toEqual([true, true]);
  expect(pool.take()).toBeUndefined();
  expect((await pool.request().connection).connection).toBe(3);
});

test("a pool of the caller's: a request that has given up does not stay in the queue", async () => {
  const pool = borrowedPool({
    engine: "the database",
    connect: async () => ({}),
    identify: async () => undefined,
    giveBack: () => {},
    stop: async () => "repeat" as StopResult,
    most: 1,
    callersPoolSize: 1,
    timeoutMs: 20,
  });
  const used = await pool.request().connection;
  const [gone, waiting] = [pool.request(), pool.request()];
  gone.cancel();
  used.giveBack(false);
  (await waiting.connection).giveBack(false);
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
    stop: async () => "repeat" as StopResult,
    most: Infinity,
    callersPoolSize: 1,
    timeoutMs: 20,
  });
  const use = async () => (await pool.request().connection).giveBack(false);
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
    stop: async () => "repeat" as StopResult,
    most: Infinity,
    callersPoolSize: 1,
    timeoutMs: 20,
  });
  const failed = await Promise.allSettled([1, 2, 3].map(() => pool.request().connection));
  await sleep(10);
  expect(failed.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(connects).toBe(3);
});

test("a connection says that it was idle only to the caller that has found it idle", async () => {
  const { pool } = poolOf(1);
  const first = await pool.request().connection;
  expect(first.wasIdle).toBe(false);
  first.giveBack(false);
  const second = await pool.request().connection;
  expect(second.wasIdle).toBe(true);
  const waiting = pool.request().connection;
  second.giveBack(false);
  expect((await waiting).wasIdle).toBe(false);
});

test("a connection that is lost while it is opened is replaced for the caller that waits for it", async () => {
  let opens = 0;
  const connect = async (lost: () => void): Promise<PoolMember<number>> => {
    if (++opens === 1) lost();
    const stop = async (): Promise<StopResult> => "absent";
    return { connection: opens, close: async () => {}, stop, ref: () => {}, unref: () => {} };
  };
  const pool = new Pool({ engine: "the database", most: 4, timeoutMs: 20 }, connect);
  expect((await pool.request().connection).connection).toBe(2);
});

/** A pool of the caller's whose connections come when the test says so. */
function slowPool() {
  const calls: { come(): void; fail(error: Error): void }[] = [];
  const seen = { identified: 0, back: [] as boolean[] };
  const pool = borrowedPool({
    engine: "the database",
    connect: () =>
      new Promise<{ readonly number: number }>((resolve, reject) => {
        const number = calls.length + 1;
        calls.push({ come: () => resolve({ number }), fail: reject });
      }),
    identify: async () => ++seen.identified,
    giveBack: (_, broken) => void seen.back.push(broken),
    stop: async () => "repeat" as StopResult,
    most: 3,
    callersPoolSize: 3,
    timeoutMs: 20,
  });
  return { pool, calls, seen };
}

test("a pool of the caller's: the error for a request that has given up is told to no other request", async () => {
  const { pool, calls } = slowPool();
  pool.request().cancel();
  const second = pool.request();
  expect(calls).toHaveLength(2);
  calls[0]?.fail(new Error("the pool is exhausted"));
  await sleep(1);
  calls[1]?.come();
  expect((await second.connection).connection).toEqual({ number: 2 });
});

test("a pool of the caller's: a connection that comes too late goes back at once, and unharmed", async () => {
  const { pool, calls, seen } = slowPool();
  pool.request().cancel();
  calls[0]?.come();
  await sleep(1);
  expect(seen).toEqual({ identified: 0, back: [false] });
});

test("whatever happens to its connections, every caller gets one in the end, and there are never too many", async () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededRandom(seed);
    let [open, most] = [0, 0];
    const connect = async (lost: () => void): Promise<PoolMember<number>> => {
      most = Math.max(most, ++open);
      await pause(random);
      if (random() < 0.15) {
        open--;
        throw new Error("refused");
      }
      if (random() < 0.15) lost();
      const close = async () => void open--;
      const stop = async (): Promise<StopResult> => "absent";
      return { connection: open, close, stop, ref: () => {}, unref: () => {} };
    };
    const pool = new Pool({ engine: "the database", most: 3, timeoutMs: 20 }, connect);
    const callers = Array.from({ length: 12 }, async () => {
      await pause(random);
      const { connection, cancel } = pool.request();
      if (random() < 0.2) return cancel();
      const lent = await connection.catch(() => undefined);
      await pause(random);
      lent?.giveBack(random() < 0.2);
    });
    await Promise.all(callers);
    expect(most, `seed ${seed}`).toBeLessThanOrEqual(3);
  }
});

async function pause(random: () => number): Promise<void> {
  for (let turns = Math.floor(random() * 6); turns > 0; turns--) await new Promise(setImmediate);
}
