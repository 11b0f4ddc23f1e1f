import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type LockEvent } from "locktender";
import { memory } from "locktender/memory";
import { describe, expect, test } from "vitest";
import { run } from "./program.js";

/** A program that loses track of leases, and what it says. `gc` is called until the given condition is true. */
const LEAKING = `
  const leak = async (locks, ...args) => { await locks.mutex(...args).acquire(); };
  const collect = async (until, withinMs = 5_000) => {
    for (let waited = 0; !until() && waited < withinMs; waited += 20) {
      globalThis.gc();
      await sleep(20);
    }
  };
  const warnings = [];
  process.on("warning", (warning) => warnings.push(warning));
  const events = [];
  const onEvent = (event) => event.type === "leaked" && events.push(event);
`;

const leaking = (script: string) => run(LEAKING + script, { nodeArgs: ["--expose-gc"] });

describe.concurrent("a lease that was garbage-collected without a release", () => {
  test("is warned of, with the place of its acquire, and told by an event; it stays held", async () => {
    const { out } = await leaking(`
      const locks = createLocks(memory(), { onEvent, captureStacks: true });
      const forgetful = async () => { await locks.mutex(["orders", "1"]).acquire({ note: "n" }); };
      await forgetful();
      await collect(() => warnings.length > 0);
      const [{ code, message }] = warnings;
      console.log(code, message.includes('"orders:1"'), /forgetful/.test(message), message.includes("keep: true"));
      const [{ name, group, kind, released, token, stack }] = events;
      console.log(name, group, kind, released, /^[0-9]+$/.test(token), /forgetful/.test(stack));
      console.log((await locks.inspect(["orders", "1"])).holders.length);
    `);
    expect(out.trimEnd().split("\n")).toEqual([
      "LOCKTENDER_LEAK true true true",
      "orders:1 orders mutex false true true",
      "1",
    ]);
  });

  test("is released with onLeak: release, and the next waiter gets in", async () => {
    const { out } = await leaking(`
      const locks = createLocks(memory(), { onEvent, onLeak: "release" });
      await leak(locks, "a");
      const waiting = locks.mutex("a").run({ wait: "20s" }, () => "next");
      await collect(() => events.length > 0);
      console.log(await waiting, events[0].released, warnings[0].message.includes("captureStacks: true"));
    `);
    expect(out).toBe("next true true\n");
  });

  test("is warned of once per place", async () => {
    const { out } = await leaking(`
      const locks = createLocks(memory(), { onEvent, captureStacks: true });
      const forgetful = async (name) => { await locks.mutex(name).acquire(); };
      for (let number = 0; number < 5; number++) await forgetful("x" + number);
      await collect(() => events.length === 5);
      console.log(events.length, warnings.length);
    `);
    expect(out).toBe("5 1\n");
  });

  test("is warned of once per group without stacks, and says when it ends", async () => {
    const { out } = await leaking(`
      const locks = createLocks(memory(), { onEvent, maxHold: "1m" });
      for (let number = 0; number < 5; number++) await leak(locks, ["orders", String(number)]);
      await leak(locks, ["users", "1"]);
      await collect(() => events.length === 6);
      console.log(events.length, warnings.length, warnings[0].message.includes("until its maxHold is over"));
    `);
    expect(out).toBe("6 2 true\n");
  });

  test("is no leak if it was released, is kept, is lost, is of run, or if a part of it is still in use", async () => {
    const { out } = await leaking(`
      const locks = createLocks(memory(), { onEvent });
      await (async () => {
        await (await locks.mutex("released").acquire()).release();
        await locks.mutex("kept").acquire({ keep: true });
        await locks.mutex("lost").acquire({ renew: false, ttl: 100 });
        await locks.mutex("run").run(() => undefined);
        await (await locks.mutex("disposed").acquire())[Symbol.asyncDispose]();
      })();
      const { parts } = await locks.all([locks.mutex("p"), locks.mutex("q")]).acquire();
      await sleep(300);
      await collect(() => false, 1_400);
      console.log(events.length, warnings.length, parts.every(({ held }) => held));
    `);
    expect(out).toBe("0 0 true\n");
  });

  test("of a multi-lock, all parts are released", async () => {
    const { out } = await leaking(`
      const locks = createLocks(memory(), { onEvent, onLeak: "release" });
      await (async () => { await locks.all([locks.mutex("p"), locks.semaphore("q", 2)]).acquire(); })();
      await collect(() => events.length > 0);
      await locks.mutex("p").run({ wait: "10s" }, () => undefined);
      console.log(events.length, (await locks.inspect("q")).holders.length);
    `);
    expect(out).toBe("1 0\n");
  });
});

test("a lease that is held for long is told of once; leaders and kept leases are not", async () => {
  const events: LockEvent[] = [];
  const onEvent = (event: LockEvent) => void (event.type === "long-hold" && events.push(event));
  await using locks = createLocks(memory(), { longHold: 50, onEvent });
  await using _long = await locks.mutex("long").acquire();
  await using _kept = await locks.mutex("kept").acquire({ keep: true });
  await locks.mutex("short").run(() => undefined);
  await locks.election("leader").lead(() => sleep(300));
  expect(events).toMatchObject([{ name: "long", kind: "mutex", token: String(_long.token) }]);
  expect((events[0] as { heldMs: number }).heldMs).toBeGreaterThanOrEqual(49);
});

test.each([500, 60_000])("a lease whose maxHold is over says so, also if its ttl is %i ms", async (ttl) => {
  await using locks = createLocks(memory(), { ttl });
  const lease = await locks.mutex("x").acquire({ maxHold: 400 });
  await expect.poll(() => lease.signal.aborted, { timeout: 5_000 }).toBe(true);
  expect((lease.signal.reason as Error).message).toMatch(/its maxHold of (400|399(\.\d)?) ms is over/);
});

test("connect sets maxHold and note for all locks that do not say otherwise", async () => {
  await using locks = createLocks(memory(), { maxHold: 60, note: "of this service" });
  const [limited, own, kept, unlimited] = [
    await locks.mutex("limited").acquire(),
    await locks.mutex("own").acquire({ maxHold: "1m", note: "mine" }),
    await locks.mutex("kept").acquire({ keep: true }),
    await locks.mutex("unlimited").acquire({ maxHold: Number.POSITIVE_INFINITY }),
  ];
  const fixed = await locks.mutex("fixed").acquire({ renew: false, ttl: "1m" });
  const leads = locks.election("leader").lead(async (lease) => {
    await sleep(150);
    return lease.held;
  });
  await expect.poll(() => limited.held).toBe(false);
  const held = [own.held, kept.held, unlimited.held, fixed.held, await leads];
  expect(held).toEqual([true, true, true, true, true]);
  const notes = await Promise.all(
    ["own", "kept"].map(async (name) => (await locks.inspect(name)).holders[0]?.note),
  );
  expect(notes).toEqual(["mine", "of this service"]);
});

test.each([
  { onLeak: "ignore" },
  { captureStacks: "yes" },
  { longHold: 0 },
  { maxHold: "soon" },
  { note: 5 },
])("%o is refused", (options) => {
  expect(() => createLocks(memory(), options as never)).toThrow(
    expect.objectContaining({ code: "invalid-option" }),
  );
});

test("keep is for acquire only", async () => {
  await using locks = createLocks(memory());
  await expect(locks.mutex("a").run({ keep: true }, () => 1)).rejects.toMatchObject({
    code: "invalid-option",
  });
  await expect(locks.mutex("a").acquire({ keep: "yes" as never })).rejects.toMatchObject({
    code: "invalid-option",
  });
});
