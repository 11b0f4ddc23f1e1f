import { channel, tracingChannel } from "node:diagnostics_channel";
import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type LockEvent, Locks } from "locktender";
import { memory } from "locktender/memory";
import { describe, expect, onTestFinished, test } from "vitest";
import { run } from "./program.js";

interface Traced {
  readonly phase: string;
  readonly name: string;
  readonly group: string;
  readonly engine: string;
  readonly token: bigint | undefined;
  readonly error: unknown;
}

const PHASES = ["start", "end", "asyncStart", "asyncEnd", "error"] as const;

/** What a tool for traces would see of `locktender:acquire` or `locktender:hold`. */
function trace(topic: "acquire" | "hold"): Traced[] {
  const seen: Traced[] = [];
  const subscribers = Object.fromEntries(
    PHASES.map((phase) => [
      phase,
      ({ name, group, engine, token, error }: Traced) => {
        seen.push({ phase, name, group, engine, token, error });
      },
    ]),
  );
  const traced = tracingChannel(`locktender:${topic}`);
  traced.subscribe(subscribers as never);
  onTestFinished(() => void traced.unsubscribe(subscribers as never));
  return seen;
}

function hear(type: string): LockEvent[] {
  const heard: LockEvent[] = [];
  const topic = channel(`locktender:${type}`);
  const listener = (event: unknown) => void heard.push(event as LockEvent);
  topic.subscribe(listener);
  onTestFinished(() => void topic.unsubscribe(listener));
  return heard;
}

describe("diagnostics channels", () => {
  test("acquire and hold are traced from beginning to end, with name, group, engine and token", async () => {
    const [acquires, holds] = [trace("acquire"), trace("hold")];
    const locks = createLocks(memory());
    const token = await locks.mutex(["orders", "42"]).run(async (lease) => {
      await sleep(5);
      return lease.token;
    });
    for (const seen of [acquires, holds]) {
      expect(seen.map(({ phase }) => phase)).toEqual(["start", "end", "asyncStart", "asyncEnd"]);
      expect(seen.at(-1)).toMatchObject({ name: "orders:42", group: "orders", engine: "memory", token });
    }
    expect(acquires[0]?.token, "not known yet").toBeUndefined();
    expect(holds[0]?.token).toBe(token);
  });

  test("a failed acquire and a failed callback are traced with their errors", async () => {
    const [acquires, holds] = [trace("acquire"), trace("hold")];
    const locks = createLocks(memory());
    const own = new Error("my own");
    await locks
      .mutex("x")
      .run(() => Promise.reject(own))
      .catch(() => undefined);
    expect(holds.find(({ phase }) => phase === "error")?.error).toBe(own);
    const lease = await locks.mutex("x").acquire();
    await locks
      .mutex("x")
      .acquire({ wait: 10 })
      .catch(() => undefined);
    expect(acquires.find(({ phase }) => phase === "error")?.error).toMatchObject({ code: "timeout" });
    await lease.release();
  });

  test("what happens to a lock is published, with its name and token", async () => {
    const types = ["acquired", "released", "lost", "timeout", "forced", "slow-wait"] as const;
    const heard = Object.fromEntries(types.map((type) => [type, hear(type)]));
    const locks = createLocks(memory(), { ttl: 1_000 });
    const mutex = locks.mutex(["group", "x"]);
    await mutex.run(() => undefined);
    const lease = await mutex.acquire();
    await mutex.acquire({ wait: 1_500 }).catch(() => undefined);
    await locks.forceRelease(["group", "x"], { reason: "stuck", by: "ada" });
    await expect.poll(() => lease.signal.aborted).toBe(true);
    for (const type of types) {
      expect(heard[type]?.length, type).toBeGreaterThan(0);
      expect(heard[type]?.at(-1)).toMatchObject({
        type,
        engine: "memory",
        name: "group:x",
        group: "group",
        kind: "mutex",
      });
    }
    const token = String(lease.token);
    expect(heard.lost?.[0]).toMatchObject({ token, loss: "forced", reason: "stuck", by: "ada" });
    expect(heard.forced?.[0]).toMatchObject({ token, reason: "stuck", by: "ada" });
    expect(heard.acquired?.at(-1)).toMatchObject({ token });
  });
});

test("events say what the name is used as, and their tokens are text, which every logger can write", async () => {
  const events: LockEvent[] = [];
  await using locks = createLocks(memory(), { onEvent: (event) => events.push(event) });
  await locks.mutex("a").run(() => undefined);
  await locks.readWrite("b").read.run(() => undefined);
  await locks.readWrite("b").write.run(() => undefined);
  await locks.semaphore("c", 2).run(() => undefined);
  await locks.election("d").lead(() => undefined);
  await locks.once("e", { keep: "1m" }, () => 1);
  await locks.web.request("f", () => undefined);
  const released = events.filter((event) => event.type === "released");
  expect(released.map(({ name, kind }) => `${name} ${kind}`)).toEqual([
    "a mutex",
    "b read",
    "b write",
    "c semaphore",
    "d election",
    "e once",
    "web:f web",
  ]);
  // Some loggers copy the fields one by one, and do not ask the event how it wants to be written.
  for (const event of released) expect(JSON.parse(JSON.stringify({ ...event })).token).toMatch(/^\d+$/);
});

test("views name the mode and the permits, and no number that stands for all there is", async () => {
  await using locks = createLocks(memory());
  await using _mutex = await locks.mutex("a").acquire();
  await using _read = await locks.readWrite("b").read.acquire();
  await using _permits = await locks.semaphore("c", 5).acquire({ weight: 2 });
  const views = await Promise.all(["a", "b", "c", "free"].map((name) => locks.inspect(name)));
  expect(JSON.stringify(views)).not.toMatch(/2147483647|weight|capacity/);
  expect(views.map(({ permits, holders: [holder] }) => [permits, holder?.mode, holder?.permits])).toEqual([
    [undefined, "exclusive", undefined],
    [undefined, "shared", undefined],
    [5, "shared", 2],
    [undefined, undefined, undefined],
  ]);
  const mismatch = await locks
    .semaphore("a", 2)
    .acquire()
    .catch((error: unknown) => error);
  expect(JSON.stringify(mismatch)).not.toMatch(/2147483647/);
});

test("Locks is a value, so that it can be a token for dependency injection", async () => {
  await using locks = createLocks(memory());
  expect(locks).toBeInstanceOf(Locks);
  expect(locks.scope("a")).toBeInstanceOf(Locks);
});

describe("a listener of the caller's", () => {
  test("that throws breaks nothing and is warned of; the other events still come", async () => {
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => void warnings.push(message);
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    const types: string[] = [];
    const locks = createLocks(memory(), {
      ttl: 60,
      onEvent({ type }) {
        types.push(type);
        throw new Error(`thrown on ${type}`);
      },
    });
    await locks.mutex("x").run(() => undefined);
    const lost = await locks.mutex("x").acquire({ renew: false });
    await expect.poll(() => lost.signal.aborted).toBe(true);
    await locks.mutex("x").run(() => undefined);
    expect(types).toEqual(["acquired", "released", "acquired", "lost", "acquired", "released"]);
    await sleep(10);
    expect(warnings.filter((text) => text.includes("thrown on lost"))).toHaveLength(1);
  });

  test("that is async and rejects does not end the process", async () => {
    const { code, out, err } = await run(`
      const locks = createLocks(memory(), { onEvent: async () => { throw new Error("from a listener"); } });
      console.log(await locks.mutex("x").run(() => "ran"));
      await sleep(20);
      console.log("still here");
    `);
    expect({ code, out }).toEqual({ code: 0, out: "ran\nstill here\n" });
    expect(err).toMatch(/LocktenderWarning.*from a listener/);
  });

  test("may itself take locks, and close the connection", async () => {
    const second: string[] = [];
    const locks = createLocks(memory(), {
      onEvent(event) {
        if (event.type !== "released" || event.name !== "first") return;
        void locks
          .mutex("second")
          .run(() => void second.push("in"))
          .finally(() => locks.close());
      },
    });
    await locks.mutex("first").run(() => undefined);
    await expect.poll(() => second).toEqual(["in"]);
    await expect
      .poll(() =>
        locks
          .mutex("x")
          .acquire()
          .catch(({ code }) => code),
      )
      .toBe("closed");
  });
});
