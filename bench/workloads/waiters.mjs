import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "locktender";
import { inRounds } from "../lib/rounds.mjs";
import { timeMs } from "../lib/stats.mjs";

/** Claims that wait in the server's queue. All locks are fair: else the tasks of a process share one claim. */
const GRANTS = 500;

/**
 * A queue of so many waiters that stays as long as it is: each that was granted asks again. `grants` lets so many
 * through; between these calls one waiter holds the lock.
 */
export async function standingQueue(locks, name, waiters) {
  const mutex = locks.mutex(name, { fair: true });
  const ending = new AbortController();
  let left = 0;
  let reached = () => undefined;
  let failure;
  let open = withResolvers();
  const worker = async () => {
    while (!ending.signal.aborted) {
      const lease = await mutex.acquire({ signal: ending.signal });
      if (left === 0) await open.promise;
      else if (--left === 0) {
        reached();
        await open.promise;
      }
      await lease.release();
    }
  };
  const workers = Array.from({ length: waiters + 1 }, () =>
    worker().catch((error) => {
      if (!ending.signal.aborted) failure ??= error;
    }),
  );
  while ((await locks.inspect(name)).waiters.length < waiters) {
    if (failure !== undefined) throw failure;
    await sleep(50);
  }
  // A waiter that entered before the subscription stood asks once more when it stands.
  await sleep(500);
  return {
    async grants(count) {
      const done = new Promise((resolve) => {
        reached = resolve;
      });
      left = count;
      const { resolve } = open;
      open = withResolvers();
      resolve();
      await done;
    },
    async end() {
      ending.abort();
      open.resolve();
      await Promise.all(workers);
    },
  };
}

function withResolvers() {
  const made = {};
  made.promise = new Promise((resolve) => {
    made.resolve = resolve;
  });
  return made;
}

/** What a grant costs the server beside 10 and beside 10,000 waiters, in turns: microseconds in its scripts. */
export async function measureManyWaiters(server, { rounds, many = 10_000, onRound }) {
  const locks = await connect(server.url, { ttl: "30m", wait: "30m" });
  try {
    const queues = {};
    for (const [name, waiters] of [
      ["few", 10],
      ["many", many],
    ]) {
      onRound(`${waiters} waiters enter`);
      queues[name] = await standingQueue(locks, `waiters-${name}`, waiters);
    }
    const run = async (name) => {
      const before = await scripts(server);
      await queues[name].grants(GRANTS);
      const after = await scripts(server);
      return { serverUs: (after.us - before.us) / GRANTS, requests: (after.calls - before.calls) / GRANTS };
    };
    const contenders = await inRounds({ rounds, names: Object.keys(queues), run, onRound });
    onRound("the waiters leave");
    await Promise.all(Object.values(queues).map((queue) => queue.end()));
    return contenders;
  } finally {
    await locks.close();
  }
}

/** What 1,000 claims cost that wait while nothing moves: requests per waiter and second. */
export async function measureIdleWaiters(server, { ms, waiters = 1_000, onRound }) {
  const locks = await connect(server.url, { wait: "30m" });
  try {
    onRound(`${waiters} waiters enter`);
    const queue = await standingQueue(locks, "idle", waiters);
    onRound("they wait");
    const before = await scripts(server);
    const startMs = performance.now();
    await sleep(ms);
    const calls = (await scripts(server)).calls - before.calls;
    const perSecond = (calls / waiters / (performance.now() - startMs)) * 1_000;
    await queue.end();
    return { waiting: { perSecond: [perSecond] } };
  } finally {
    await locks.close();
  }
}

/** How fast grants are beside 10, 100 and 1,000 waiters, and how many requests each takes if the server counts them. */
export async function* besideWaiters(server, received = () => undefined) {
  const locks = await connect(server.url, { ttl: "10m", wait: "10m" });
  try {
    for (const waiters of [10, 100, 1_000]) {
      const queue = await standingQueue(locks, `waiters-${waiters}`, waiters);
      const before = await received();
      const tookMs = await timeMs(() => queue.grants(waiters));
      const asked = (await received()) - before;
      const requests = before === undefined ? "" : `, ${(asked / waiters).toFixed(2)} requests per grant`;
      yield `${waiters} waiters: ${((waiters / tookMs) * 1_000).toFixed(0)} grants/s${requests}`;
      await queue.end();
    }
  } finally {
    await locks.close();
  }
}

async function scripts({ client }) {
  const stats = await client.info("commandstats");
  const [, calls = 0, us = 0] = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(stats) ?? [];
  return { calls: Number(calls), us: Number(us) };
}
