import assert from "node:assert/strict";
import { ticketOf } from "../../core/claim.js";
import type { Locks } from "../../locks/locks.js";
import type { Mutex, MutexOptions } from "../../locks/mutex.js";
import type { WorkerProcess } from "../worker-process.js";
import {
  type Case,
  count,
  eventually,
  holds,
  Requests,
  SLACK_MS,
  sleep,
  TTL_MS,
  withoutNotifications,
} from "./bench.js";

/** So long that no renewal and no end of the sticky time falls into a test: only a notification can be so quick. */
const LONG = { ttl: "30s" } as const;
const STICKY = { sticky: "20s" } as const;
/** What a notification, the release that it causes, and the next grant may take. */
const SOON_MS = 2 * SLACK_MS;
/** For how long one claim may serve the tasks of a process, from when another process wants it. */
const BUDGET_MS = 100;

async function gotSoon(what: string, asked: Promise<unknown>): Promise<void> {
  const startMs = performance.now();
  await asked;
  const tookMs = performance.now() - startMs;
  assert(tookMs < SOON_MS, `${what} took ${tookMs} ms`);
}

/** Takes it, and is done with it at once. */
const use = (mutex: Mutex): Promise<bigint> => mutex.run(({ token }) => token);

/**
 * The claim stays with this process, which does not need it now. A process that does not listen yet keeps no claim.
 * The answer is its last token.
 */
async function becomesIdle(locks: Locks, name: string, options: MutexOptions = STICKY): Promise<bigint> {
  let token = 0n;
  await eventually("the claim stays", SOON_MS, async () => {
    token = await use(locks.mutex(name, options));
    return (await locks.inspect(name)).holders[0]?.sticky === "idle";
  });
  return token;
}

/** The same in another process. */
async function becomesIdleAt(worker: WorkerProcess, name: string, options: MutexOptions): Promise<bigint> {
  let token = -1n;
  await eventually("the claim stays", SOON_MS, async () => {
    const before = token;
    const taken = await worker.acquire(name, {}, options);
    token = BigInt(taken.token);
    await worker.release(taken.lease);
    return token === before + 1n;
  });
  return token;
}

export const sticky: readonly Case[] = [
  {
    name: "an engine that tells no holder of the others refuses a sticky mutex at once, and any other keeps it",
    async run(bench) {
      const locks = bench.connect(LONG);
      const make = () => locks.mutex(bench.name(), STICKY);
      if (bench.harness.sticky === undefined) make();
      else assert.throws(make, { code: "unsupported" });
      assert.equal(locks.guarantees.tellsHolder === true, bench.harness.sticky === undefined);
    },
  },
  {
    name: "to take the same name again and again costs no request, and tokens grow",
    needs: ["sticky"],
    async run(bench) {
      const requests = new Requests();
      const locks = await bench.opened(LONG, requests.of);
      const name = bench.name();
      const mutex = locks.mutex(name, STICKY);
      const tokens = [await becomesIdle(locks, name)];
      const { claims, releases } = requests;
      for (let turn = 0; turn < 50; turn++) tokens.push(await use(mutex));
      const tried = await mutex.tryAcquire();
      tokens.push(tried?.token ?? assert.fail());
      assert.equal(await tried?.release(), true);
      assert.deepEqual([requests.claims, requests.releases], [claims, releases]);
      const [first = 0n] = tokens;
      assert.deepEqual(
        tokens,
        tokens.map((_, index) => first + BigInt(index)),
      );
    },
  },
  {
    name: "another process that waits gets an idle claim soon, with a greater token",
    needs: ["sticky"],
    waits: true,
    async run(bench) {
      const names = [bench.name(), bench.name()] as const;
      const [locks, other] = await Promise.all([bench.opened(LONG), bench.opened(LONG)]);
      const tokens = await Promise.all(names.map((name) => becomesIdle(locks, name)));
      // Of two claims, the one that is wanted is given up, and no other.
      const [wanted, unwanted] = names;
      const waiting = other.mutex(wanted).acquire();
      await gotSoon("the claim", waiting);
      const lease = await waiting;
      assert(ticketOf(lease.token) > ticketOf(tokens[0] ?? 0n));
      assert.equal(await use(locks.mutex(unwanted, STICKY)), (tokens[1] ?? 0n) + 1n);
      await lease.release();
      // And back, as often as they like.
      for (const mutex of [locks.mutex(wanted, STICKY), other.mutex(wanted, STICKY)])
        await gotSoon("the next claim", use(mutex));
    },
  },
  {
    name: "a reader and a claim that holds other locks want it as a mutex does",
    needs: ["sticky", "kinds"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const [locks, other] = await Promise.all([bench.opened(LONG), bench.opened(LONG)]);
      await becomesIdle(locks, name);
      await gotSoon(
        "the claim of a reader",
        other.readWrite(name).read.run(() => undefined),
      );
      await becomesIdle(locks, name);
      await gotSoon(
        "a nested claim",
        other.mutex(bench.name()).run(() => other.mutex(name).run(() => undefined)),
      );
    },
  },
  {
    name: "a try of another process is refused, and the idle claim is gone soon after",
    needs: ["sticky"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const [locks, other] = await Promise.all([bench.opened(LONG), bench.opened(LONG)]);
      await becomesIdle(locks, name);
      assert.equal(await other.mutex(name).tryAcquire(), null);
      // Its process is told as soon as it listens, and each further try tells it again.
      await eventually("another process can take it", SOON_MS, async () => {
        return (await other.mutex(name).tryAcquire()) !== null;
      });
    },
  },
  {
    name: "while a task holds it, others wait for that task, and for the budget of those behind it",
    needs: ["sticky"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const [locks, other] = await Promise.all([bench.opened(LONG), bench.opened(LONG)]);
      const mutex = locks.mutex(name, STICKY);
      let over = false;
      let inside = 0;
      const inTurn = async (lock: Mutex) =>
        lock.run(async () => {
          assert.equal(++inside, 1);
          await sleep(5);
          inside--;
        });
      const busy = async () => {
        while (!over) await inTurn(mutex);
      };
      const tasks = [busy(), busy(), busy()];
      try {
        for (let turn = 0; turn < 3; turn++) {
          await sleep(2 * BUDGET_MS);
          await gotSoon("the claim of a busy process", inTurn(other.mutex(name)));
        }
      } finally {
        over = true;
        await Promise.all(tasks);
      }
    },
  },
  {
    name: "a claim that had to wait does not stay: there may be waiters behind it of which it was never told",
    needs: ["sticky"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const [locks, other] = await Promise.all([bench.opened(LONG), bench.opened(LONG)]);
      const holder = await other.mutex(name).acquire();
      const waiting = locks.mutex(name, STICKY).acquire();
      await eventually("it waits", SOON_MS, async () => (await count(other, name)).waiters === 1);
      const third = other.mutex(name).acquire();
      await eventually("a third one waits", SOON_MS, async () => (await count(other, name)).waiters === 2);
      await holder.release();
      await (await waiting).release();
      await gotSoon("the claim of the third", third);
      await (await third).release();
      assert.deepEqual(await count(other, name), { holders: 0, waiters: 0 });
    },
  },
  {
    name: "with all notifications lost, a renewal says that others wait",
    needs: ["sticky"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const ttlMs = 9_000;
      const [locks, other] = await Promise.all([
        bench.opened({ ttl: ttlMs }, withoutNotifications),
        bench.opened({ ttl: ttlMs }),
      ]);
      await becomesIdle(locks, name, { sticky: ttlMs });
      const startMs = performance.now();
      const lease = await other.mutex(name).acquire();
      const waitedMs = performance.now() - startMs;
      assert(waitedMs < ttlMs / 3 + SOON_MS, `waited ${waitedMs} ms`);
      await lease.release();
    },
  },
  {
    name: "an idle claim is renewed, and given back at the end of its time",
    needs: ["sticky"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const [locks, other] = await Promise.all([bench.opened({ ttl: 3_000 }), bench.opened()]);
      const options = { sticky: 3_000 };
      const token = await becomesIdle(locks, name, options);
      // A renewal is due after a third of its ttl. Without it, less than a third of it would be left here.
      await sleep(2_200);
      assert.equal(await use(locks.mutex(name, options)), token + 1n);
      await holds(other, name);
      await eventually("it is free", 3_000 + SOON_MS, async () => (await count(other, name)).holders === 0);
    },
  },
  {
    name: "people see that a claim is sticky, and its own process sees that it is idle",
    needs: ["sticky"],
    async run(bench) {
      const name = bench.name();
      const [locks, watcher] = await Promise.all([bench.opened(LONG), bench.opened(LONG)]);
      const mutex = locks.mutex(name, STICKY);
      const shown = async (by: typeof locks) => {
        const { holders, waiters } = await by.inspect(name);
        return [holders.map((holder) => holder.sticky), waiters.length];
      };
      await becomesIdle(locks, name);
      const lease = await mutex.acquire();
      assert.deepEqual(await shown(locks), [[true], 0]);
      await lease.release();
      assert.deepEqual(await shown(locks), [["idle"], 0]);
      assert.deepEqual(await shown(watcher), [[true], 0]);
    },
  },
  {
    name: "an idle claim that is taken away is missed by no task: the next one gets a new ticket",
    needs: ["sticky"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const lost: unknown[] = [];
      const onEvent = (event: { readonly type: string }) => void (event.type === "lost" && lost.push(event));
      const [locks, operator] = await Promise.all([bench.opened({ ...LONG, onEvent }), bench.opened(LONG)]);
      const mutex = locks.mutex(name, STICKY);
      const before = await becomesIdle(locks, name);
      assert.equal((await operator.forceRelease(name, { reason: "stuck" })).length, 1);
      await eventually("its process knows", SOON_MS, async () => {
        return ticketOf(await use(mutex)) > ticketOf(before);
      });
      assert.deepEqual(lost, []);
    },
  },
  {
    name: "close gives an idle claim back",
    needs: ["sticky"],
    async run(bench) {
      const name = bench.name();
      const [locks, other] = await Promise.all([bench.opened(LONG), bench.opened(LONG)]);
      await becomesIdle(locks, name);
      await locks.close();
      assert.notEqual(await other.mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "a program that ends by itself gives its idle claim back first",
    needs: ["sticky", "processes"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const other = await bench.opened(LONG);
      const worker = await bench.worker(LONG);
      await becomesIdleAt(worker, name, { sticky: 500 });
      assert.equal((await count(other, name)).holders, 1);
      await worker.leave();
      assert.deepEqual(await worker.exited, { code: 0, signal: null });
      assert.notEqual(await other.mutex(name).tryAcquire(), null);
    },
  },
  {
    name: "when a process is killed while its claim is idle, others wait for one ttl at most",
    needs: ["sticky", "processes"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const locks = await bench.opened();
      const worker = await bench.worker({ ttl: TTL_MS });
      const token = await becomesIdleAt(worker, name, { sticky: TTL_MS });
      await worker.kill();
      const killedAtMs = performance.now();
      const next = await locks.mutex(name).acquire();
      const waitedMs = performance.now() - killedAtMs;
      const mostMs = TTL_MS * 1.1 + locks.guarantees.expiryGranularityMs + SLACK_MS;
      assert(waitedMs <= mostMs, `waited ${waitedMs} ms`);
      assert(next.token > token);
    },
  },
  {
    name: "a process that was stopped while its claim was idle does not take it up again once it is lost",
    needs: ["sticky", "processes"],
    waits: true,
    async run(bench) {
      const name = bench.name();
      const locks = await bench.opened();
      const worker = await bench.worker({ ttl: TTL_MS });
      const token = await becomesIdleAt(worker, name, { sticky: TTL_MS });
      worker.signal("SIGSTOP");
      const holder = await locks.mutex(name).acquire();
      assert(holder.token > token);
      const asked = worker.acquire(name, { wait: "20s" }, { sticky: TTL_MS });
      worker.signal("SIGCONT");
      const got = await Promise.race([asked, sleep(300).then(() => undefined)]);
      assert.equal(got, undefined, "it waits for the holder");
      assert(holder.held);
      await holder.release();
      assert(BigInt((await asked).token) > holder.token);
    },
  },
];
