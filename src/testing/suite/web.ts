import assert from "node:assert/strict";
import { once } from "node:events";
import type { WebLockInfo } from "../../locks/web-locks.js";
import { type Bench, type Case, eventually, sleep } from "./bench.js";

/** A lock that is held until `free` is called. */
async function holdUntilFreed(bench: Bench, name: string, mode: "exclusive" | "shared" = "exclusive") {
  let free = () => {};
  const freed = new Promise<void>((resolve) => {
    free = resolve;
  });
  let entered = () => {};
  const inside = new Promise<void>((resolve) => {
    entered = resolve;
  });
  const request = bench.connect().web.request(name, { mode }, async () => {
    entered();
    await freed;
    return "done";
  });
  request.catch(() => undefined);
  await inside;
  return { free, request };
}

/** What a holder is told whose lock was taken away. */
async function lossOf(bench: Bench): Promise<unknown> {
  const name = bench.name();
  const lease = await bench.connect().mutex(name).acquire();
  const told = once(lease.signal, "abort");
  await bench.connect().forceRelease(name, { reason: "for a test" });
  await told;
  return lease.signal.reason;
}

const named = (error: unknown, name: string) => error instanceof DOMException && error.name === name;

export const web: readonly Case[] = [
  {
    name: "a request gives what its callback gives, and the lock goes with it",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const { web } = bench.connect();
      assert.equal(
        await web.request(name, async (lock) => `${lock?.name} ${lock?.mode}`),
        `${name} exclusive`,
      );
      assert.equal(await web.request(name, { mode: "shared" }, (lock) => lock?.mode), "shared");
      const own = new Error("my own");
      await assert.rejects(
        web.request(name, () => {
          throw own;
        }),
        (error) => error === own,
      );
      await assert.rejects(
        web.request(name, async () => Promise.reject(own)),
        (error) => error === own,
      );
      assert.equal(await web.request(name, { ifAvailable: true }, (lock) => lock !== null), true);
      // It says that another lock was lost; this one was not.
      const lost = await lossOf(bench);
      await assert.rejects(
        web.request(name, () => Promise.reject(lost)),
        (error) => error === lost,
      );
    },
  },
  {
    name: "exclusive requests take turns, shared ones meet, and none overtakes",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const first = await holdUntilFreed(bench, name, "shared");
      const second = await holdUntilFreed(bench, name, "shared");
      const order: string[] = [];
      const locks = bench.connect();
      const waiting = async (count: number) =>
        eventually(`${count} wait`, 5_000, async () => {
          const { pending } = await locks.web.query();
          return pending.filter((info) => info.name === name).length === count;
        });
      const writer = locks.web.request(name, () => order.push("exclusive"));
      await waiting(1);
      const readers = [1, 2].map(() =>
        bench.connect().web.request(name, { mode: "shared" }, () => order.push("shared")),
      );
      await waiting(3);
      assert.equal(
        await locks.web.request(name, { mode: "shared", ifAvailable: true }, (lock) => lock),
        null,
      );
      first.free();
      second.free();
      await Promise.all([writer, ...readers]);
      assert.deepEqual(order, ["exclusive", "shared", "shared"]);
    },
  },
  {
    name: "requests of one program are served in the order in which they were made",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      const modes = ["exclusive", "shared", "exclusive", "shared", "exclusive"] as const;
      for (let round = 0; round < 5; round++) {
        const name = bench.name();
        const order: number[] = [];
        await Promise.all(modes.map((mode, at) => web.request(name, { mode }, () => order.push(at))));
        assert.deepEqual(order, [0, 1, 2, 3, 4]);
      }
    },
  },
  {
    name: "a request that is called off before it has come to the engine is gone, and those behind it come",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      const name = bench.name();
      const controller = new AbortController();
      const first = web.request(name, () => "first");
      const off = web.request(name, { signal: controller.signal }, () => assert.fail("was granted"));
      const last = web.request(name, () => "last");
      controller.abort(new Error("no longer"));
      await assert.rejects(off, { message: "no longer" });
      assert.deepEqual(await Promise.all([first, last]), ["first", "last"]);
    },
  },
  {
    name: "ifAvailable gives nothing if it is taken, and leaves nothing behind",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const holder = await holdUntilFreed(bench, name);
      const { web } = bench.connect();
      assert.equal(await web.request(name, { ifAvailable: true }, (lock) => lock), null);
      assert.equal((await web.query()).pending.filter((info) => info.name === name).length, 0);
      holder.free();
      assert.equal(await holder.request, "done");
    },
  },
  {
    name: "a signal ends the wait with its own reason, and does nothing to the holder",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const controller = new AbortController();
      const { web } = bench.connect();
      const held = web.request(name, { signal: controller.signal }, async (lock) => {
        controller.abort();
        await sleep(20);
        return lock?.name;
      });
      assert.equal(await held, name);
      const holder = await holdUntilFreed(bench, name);
      const other = new AbortController();
      const waiting = web.request(name, { signal: other.signal }, () => assert.fail("was granted"));
      await eventually("it waits", 5_000, async () =>
        (await web.query()).pending.some((info) => info.name === name),
      );
      other.abort(new Error("no longer"));
      await assert.rejects(waiting, { message: "no longer" });
      await assert.rejects(
        web.request(name, { signal: AbortSignal.abort() }, () => 1),
        (error) => named(error, "AbortError"),
      );
      holder.free();
    },
  },
  {
    name: "a request that steals is granted at once, the holder is told at once, and waiters go on waiting",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const victim = await holdUntilFreed(bench, name);
      const watcher = bench.connect();
      const granted: string[] = [];
      const waiting = bench.connect().web.request(name, () => granted.push("waiter"));
      await eventually("it waits", 5_000, async () =>
        (await watcher.web.query()).pending.some((info) => info.name === name),
      );
      const thief = bench.connect().web.request(name, { steal: true }, async () => {
        granted.push("thief");
        // The victim's callback still runs; but its request has failed.
        await assert.rejects(victim.request, (error) => named(error, "AbortError"));
        return "stolen";
      });
      assert.equal(await thief, "stolen");
      await waiting;
      assert.deepEqual(granted, ["thief", "waiter"]);
      victim.free();
      assert.equal(await watcher.web.request(name, { steal: true }, () => "free"), "free");
    },
  },
  {
    name: "query tells the holders and the waiters",
    needs: ["queue"],
    async run(bench) {
      const name = bench.name();
      const holder = await holdUntilFreed(bench, name, "shared");
      const locks = bench.connect({ owner: { instance: "me" } });
      const waiting = locks.web.request(name, () => undefined);
      const mine = (infos: readonly WebLockInfo[]) => infos.filter((info) => info.name === name);
      await eventually("it is seen", 5_000, async () => mine((await locks.web.query()).pending).length === 1);
      const { held, pending } = await locks.web.query();
      assert.deepEqual(
        mine(held).map(({ mode }) => mode),
        ["shared"],
      );
      assert.deepEqual(mine(pending), [{ name, mode: "exclusive", clientId: "me" }]);
      holder.free();
      await waiting;
    },
  },
  {
    name: "every name of the platform is a name here, and no two of them meet",
    needs: ["queue"],
    async run(bench) {
      const base = bench.name();
      const names = ["", "\u0000", "\ud800", "\udc00", "#", `${base}:a`, `${base}\\:a`, "x".repeat(5_000)];
      names.push("\u0000".repeat(200), '"'.repeat(999), "€".repeat(84), ":".repeat(100));
      const { web } = bench.connect();
      const nested = async (index: number): Promise<number> => {
        const name = names[index];
        if (name === undefined) return index;
        return web.request(name, { ifAvailable: true }, async (lock) => {
          assert.equal(lock?.name, name);
          return nested(index + 1);
        });
      };
      assert.equal(await nested(0), names.length);
      assert.equal(await web.request(5 as never, (lock) => lock?.name), "5");
    },
  },
  {
    name: "what the specification forbids is refused with its errors",
    needs: ["queue"],
    async run(bench) {
      const { web } = bench.connect();
      const never = () => assert.fail("was granted");
      const { signal } = new AbortController();
      const forbidden = [
        { steal: true, ifAvailable: true },
        { steal: true, mode: "shared" },
        { steal: true, signal },
        { ifAvailable: true, signal },
      ] as const;
      for (const options of forbidden) {
        await assert.rejects(web.request("x", options, never), (error) => named(error, "NotSupportedError"));
      }
      await assert.rejects(web.request("-x", never), (error) => named(error, "NotSupportedError"));
      await assert.rejects(web.request("x", { mode: "both" } as never, never), TypeError);
      await assert.rejects(web.request("x", { signal: 5 } as never, never), TypeError);
      await assert.rejects(web.request("x", 5 as never), TypeError);
      await assert.rejects(web.request(Symbol("x") as never, never), TypeError);
      await assert.rejects(web.request("x", {}, undefined as never), TypeError);
    },
  },
];
