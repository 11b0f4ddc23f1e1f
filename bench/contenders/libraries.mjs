import { randomBytes } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * The libraries that are measured, each behind the same two calls: `lock(name, options)` gives `acquire(waitMs)`,
 * which resolves to what `release` takes; when it has waited for so long, to `undefined`, or it rejects with an
 * error of which `isTimeout` is true. All use the ioredis of
 * this package. How long to wait is given to each; everything else is its default, unless `retryMs` sets the pause
 * between two asks.
 */
const OPEN = { bare, locktender, redlock, "redis-semaphore": redisSemaphore, verrou };

/** The commands that are requests of the library. What its scripts call on the server is none. */
export const REQUESTS = {
  bare: ["set", "evalsha"],
  locktender: ["eval", "evalsha"],
  redlock: ["eval", "evalsha"],
  "redis-semaphore": ["set", "eval", "evalsha"],
  verrou: ["set", "eval"],
};

const TTL_MS = 15_000;
const BARE_RETRY_MS = 10;
const LONG_MS = 120_000;
const BARE_RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

export const openLibrary = (spec) => OPEN[spec.library](spec);

async function ioredis({ url }) {
  const { Redis } = await import("ioredis");
  return new Redis(url);
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What people write by hand: SET NX PX with a random text, and a script that deletes only one's own key. */
async function bare(spec) {
  const client = await ioredis(spec);
  const sha = await client.script("LOAD", BARE_RELEASE);
  return {
    lock: (name, { retryMs = BARE_RETRY_MS } = {}) => ({
      async acquire(waitMs = LONG_MS) {
        const id = randomBytes(16).toString("base64url");
        const untilMs = performance.now() + waitMs;
        while ((await client.set(name, id, "PX", TTL_MS, "NX")) !== "OK") {
          if (performance.now() >= untilMs) return undefined;
          await pause(retryMs);
        }
        return id;
      },
      release: (id) => client.evalsha(sha, 1, name, id),
    }),
    close: () => client.quit(),
  };
}

/** The build in `dist`. */
async function locktender({ url, dist }) {
  const { connect } = await import(pathToFileURL(join(dist, "index.js")).href);
  const locks = await connect(url, { wait: LONG_MS });
  return {
    locks,
    lock(name, { fair, sticky } = {}) {
      // An older build refuses options that it does not know.
      const options = { ...(fair && { fair }), ...(sticky && { sticky }) };
      const mutex = locks.mutex(name, options);
      return {
        acquire: (waitMs = LONG_MS) => mutex.acquire({ wait: waitMs }),
        release: (lease) => lease.release(),
      };
    },
    isTimeout: (error) => error.code === "timeout",
    close: () => locks.close(),
  };
}

async function redlock(spec) {
  const client = await ioredis(spec);
  const { default: Redlock } = createRequire(join(spec.peers, "package.json"))("redlock");
  const locks = new Redlock([client]);
  return {
    lock(name, { retryMs } = {}) {
      const retry = retryMs === undefined ? {} : { retryDelay: retryMs, retryJitter: retryMs / 2 };
      const delayMs = retryMs ?? locks.settings.retryDelay;
      return {
        acquire(waitMs = LONG_MS) {
          const settings = { ...retry, retryCount: Math.ceil(waitMs / delayMs) };
          return locks.acquire([name], TTL_MS, settings);
        },
        release: (lock) => lock.release(),
      };
    },
    isTimeout: (error) => error.name === "ExecutionError",
    close: () => client.quit(),
  };
}

async function redisSemaphore(spec) {
  const client = await ioredis(spec);
  const { Mutex } = createRequire(join(spec.peers, "package.json"))("redis-semaphore");
  return {
    lock(name, { retryMs } = {}) {
      const retry = retryMs === undefined ? {} : { retryInterval: retryMs };
      return {
        // How long to wait is an option of the object.
        async acquire(waitMs = LONG_MS) {
          const mutex = new Mutex(client, name, { acquireTimeout: Math.ceil(waitMs), ...retry });
          return (await mutex.tryAcquire()) ? mutex : undefined;
        },
        release: (mutex) => mutex.release(),
      };
    },
    close: () => client.quit(),
  };
}

async function verrou(spec) {
  const connection = await ioredis(spec);
  const { resolve } = createRequire(join(spec.peers, "package.json"));
  const load = (path) => import(pathToFileURL(resolve(path)).href);
  const { Verrou } = await load("@verrou/core");
  const { redisStore } = await load("@verrou/core/drivers/redis");
  const locks = new Verrou({ default: "redis", stores: { redis: { driver: redisStore({ connection }) } } });
  return {
    lock(name, { retryMs } = {}) {
      const lock = locks.createLock(name);
      const delay = retryMs === undefined ? {} : { delay: retryMs };
      return {
        acquire: async (waitMs = LONG_MS) =>
          (await lock.acquire({ retry: { ...delay, timeout: waitMs } })) ? lock : undefined,
        release: () => lock.release(),
      };
    },
    close: () => connection.quit(),
  };
}
