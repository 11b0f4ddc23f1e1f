import assert from "node:assert/strict";
import { startTimer } from "../../core/timer.js";
import { type Case, eventually, queued, sleep, TTL_MS } from "./bench.js";

export const once: readonly Case[] = [
  {
    name: "scenario S20: it runs once, and all callers get its one result",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      let ran = 0;
      const options = { keep: "1h" } as const;
      const call = () =>
        bench.connect().once(key, options, async () => {
          ran++;
          await sleep(50);
          return { at: { toJSON: () => "as JSON" }, number: ran };
        });
      const results = await Promise.all([call(), call(), call()]);
      results.push(await call());
      assert.equal(ran, 1);
      assert.equal(results.filter((result) => result.ran).length, 1);
      for (const { value } of results) assert.deepEqual(value, { at: "as JSON", number: 1 });
      // Nothing is a value, too.
      const nothing = bench.name();
      assert.deepEqual(await bench.connect().once(nothing, options, () => undefined), {
        ran: true,
        value: null,
      });
      assert.deepEqual(await bench.connect().once(nothing, options, () => 5), { ran: false, value: null });
    },
  },
  {
    name: "scenario S21: a job that many fire at once, each when it likes, runs on one of them",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      let ran = 0;
      const fire = async (index: number) => {
        await sleep(index * 20);
        const locks = bench.connect();
        const { value } = await locks.once(key, { keep: "1h" }, () => ++ran);
        await locks.close();
        return value;
      };
      assert.deepEqual(await Promise.all([0, 1, 2, 3, 4].map(fire)), [1, 1, 1, 1, 1]);
    },
  },
  {
    name: "what fails is not stored, unless that is asked for",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const locks = bench.connect();
      const own = new Error("my own");
      const fail = () => {
        throw own;
      };
      const isOwn = (error: unknown) => error === own;
      await assert.rejects(locks.once(key, { keep: "1h" }, fail), isOwn);
      assert.deepEqual(await locks.once(key, { keep: "1h" }, () => "then"), { ran: true, value: "then" });
      const kept = bench.name();
      await assert.rejects(locks.once(kept, { keep: "1h", keepErrors: true }, fail), isOwn);
      await assert.rejects(
        bench.connect().once(kept, { keep: "1h" }, () => "then"),
        { code: "once-failed", message: /my own/ },
      );
    },
  },
  {
    name: "the same key for other work is an error, and not the result of the other work",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const locks = bench.connect();
      const call = (options: object) => locks.once(key, { keep: "1h", ...options }, () => "ours");
      await call({ fingerprint: "order 42" });
      assert.deepEqual(await call({ fingerprint: "order 42" }), { ran: false, value: "ours" });
      for (const options of [{ fingerprint: "order 43" }, {}, { fingerprint: "order 42", keep: "2h" }]) {
        await assert.rejects(call(options), { code: "once-mismatch" });
      }
      for (const value of ["a cell", 0, null, {}]) {
        const taken = bench.name();
        await locks.cell<unknown>(taken).write(value);
        await assert.rejects(
          locks.once(taken, { keep: "1h" }, () => 1),
          { code: "once-mismatch", message: /is the name of a cell/ },
        );
      }
    },
  },
  {
    name: "a caller that is late gets the result that is stored, and a crashed runner is replaced",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const slow = bench.connect().once(key, { keep: "1h", ttl: 300 }, async () => {
        await bench.connect().forceRelease(key, { reason: "taken for dead" });
        // Another process does it meanwhile.
        const other = await bench.connect().once(key, { keep: "1h" }, () => "second");
        assert.deepEqual(other, { ran: true, value: "second" });
        return "first, but late";
      });
      assert.deepEqual(await slow, { ran: false, value: "second" });
    },
  },
  {
    name: "a caller that fails late gets the result that is stored, too, if failures were to be kept",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const options = { keep: "1h", keepErrors: true } as const;
      const slow = bench.connect().once(key, options, async () => {
        await bench.connect().forceRelease(key, { reason: "taken for dead" });
        await bench.connect().once(key, options, () => "second");
        throw new Error("first, but late");
      });
      assert.deepEqual(await slow, { ran: false, value: "second" });
    },
  },
  {
    name: "a runner that was killed is replaced, and one that was only stopped gets the result of its successor",
    waits: true,
    needs: ["cells", "processes"],
    async run(bench) {
      const options = { ttl: TTL_MS } as const;
      const [killed, stopped] = await Promise.all([bench.worker(options), bench.worker(options)]);
      const [first, second] = [bench.name(), bench.name()];
      await killed.beginOnce(first, "killed");
      await stopped.beginOnce(second, "stopped");
      const locks = bench.connect();
      const next = [first, second].map((key) => locks.once(key, { keep: "1h" }, () => "next"));
      await queued(locks, first, 1);
      await queued(locks, second, 1);
      await killed.kill();
      stopped.signal("SIGSTOP");
      assert.deepEqual(await Promise.all(next), Array(2).fill({ ran: true, value: "next" }));
      stopped.signal("SIGCONT");
      assert.deepEqual(await stopped.endOnce(), { ran: false, value: "next" });
    },
  },
  {
    name: "an engine that is away for a moment neither stops it nor loses its result",
    waits: true,
    needs: ["cells", "network"],
    async run(bench) {
      const { locks, proxy } = await bench.proxied({ ttl: "20s" });
      const begun = bench.name();
      await locks.once(bench.name(), { keep: "1h" }, () => "connected");
      const away = async () => {
        proxy.refuse();
        await sleep(50);
        startTimer(() => proxy.heal(), 100);
      };
      const whileItRuns = locks.once(begun, { keep: "1h" }, async () => {
        await away();
        return "stored";
      });
      assert.deepEqual(await whileItRuns, { ran: true, value: "stored" });
      const other = bench.connect();
      assert.deepEqual(await other.once(begun, { keep: "1h" }, () => 1), { ran: false, value: "stored" });
      await away();
      assert.deepEqual(await locks.once(bench.name(), { keep: "1h" }, () => "begun"), {
        ran: true,
        value: "begun",
      });
    },
  },
  {
    name: "scenario S13: a result whose storing was not answered is stored once, and known as the own one",
    waits: true,
    needs: ["cells", "network"],
    async run(bench) {
      const { locks, proxy } = await bench.proxied({ ttl: "20s" });
      const key = bench.name();
      await locks.once(bench.name(), { keep: "1h" }, () => "connected");
      let cut: Promise<void> | undefined;
      const done = await locks.once(key, { keep: "1h" }, () => {
        cut = proxy.cutBeforeReply((data) => data.includes("unmistakable"));
        return "unmistakable";
      });
      await cut;
      assert.deepEqual(done, { ran: true, value: "unmistakable" });
    },
  },
  {
    name: "a connection that closes while it runs waits for it, and its result is stored",
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const locks = bench.connect();
      let started = () => {};
      const inside = new Promise<void>((resolve) => {
        started = resolve;
      });
      const running = locks.once(key, { keep: "1h" }, async (lease) => {
        started();
        await sleep(200);
        return lease.held;
      });
      await inside;
      await Promise.all([running, locks.close()]);
      assert.deepEqual(await running, { ran: true, value: true });
      assert.deepEqual(await bench.connect().once(key, { keep: "1h" }, () => 0), { ran: false, value: true });
    },
  },
  {
    name: "the result is forgotten when its time is over",
    waits: true,
    needs: ["cells"],
    async run(bench) {
      const key = bench.name();
      const locks = bench.connect();
      let ran = 0;
      const call = () => locks.once(key, { keep: "2s" }, () => ++ran);
      assert.equal((await call()).value, 1);
      assert.equal((await call()).value, 1);
      await eventually("it runs again", 8_000, async () => {
        await sleep(100);
        return (await call()).value === 2;
      });
    },
  },
  {
    name: "invalid input is refused before anything runs",
    needs: ["cells"],
    async run(bench) {
      const locks = bench.connect();
      const key = bench.name();
      const never = () => assert.fail("it ran");
      const bad: object[] = [{}, { keep: 0 }, { keep: "soon" }, { keep: Infinity }, { keep: "1h", for: 1 }];
      bad.push({ keep: "1h", fingerprint: 5 }, { keep: "1h", fingerprint: "x".repeat(1_001) });
      bad.push({ keep: "1h", keepErrors: 1 }, { keep: "1h", wait: -1 }, { keep: "1h", ttl: 0 });
      bad.push({ keep: "1h", note: 5 }, { keep: "1h", signal: "now" });
      const done = bench.name();
      await locks.once(done, { keep: "1h" }, () => "stored");
      for (const options of bad) {
        for (const name of [key, done])
          await assert.rejects(locks.once(name, options as never, never), { code: "invalid-option" });
      }
      const reason = new Error("no longer wanted");
      const asked = locks.once(done, { keep: "1h", signal: AbortSignal.abort(reason) }, never);
      await assert.rejects(asked, reason);
      await assert.rejects(locks.once(key, { keep: "1h" }, 5 as never), { code: "invalid-option" });
      // As with other calls that can do without options; this one cannot.
      await assert.rejects(locks.once(key, ...([never] as unknown as [never, never])), /how long .* is kept/);
      for (const value of [5n, () => 5, Symbol("5"), { toJSON: () => undefined }, "x".repeat(65_536)]) {
        await assert.rejects(
          locks.once<unknown>(key, { keep: "1h" }, () => value),
          { code: "invalid-option" },
        );
      }
    },
  },
];
