import { createLocks, type LeaseLostError, type Locks } from "locktender";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test } from "vitest";
import type { Answer, Backend, ClaimRequest } from "#lib/core/backend.js";

/** Memory, with a hand on the answers to its claims. */
function answering(change: (claim: ClaimRequest, ask: () => Promise<Answer>) => Promise<Answer>): {
  backend: Backend;
  locks: Locks;
} {
  const backend = memory();
  const claim = backend.claim.bind(backend);
  backend.claim = (request) => change(request, () => claim(request));
  const locks = createLocks(backend);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return { backend, locks };
}

const late = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

test("requests of one program keep their order, whichever scope they were made by", async () => {
  let asked = 0;
  // The first one takes longer on its way.
  const { locks } = answering(async (_, ask) => {
    if (asked++ === 0) await late(30);
    return ask();
  });
  const order: string[] = [];
  const request = (who: string) => locks.scope("tenant").web.request("a", () => void order.push(who));
  await Promise.all([request("first"), request("second")]);
  expect(order).toEqual(["first", "second"]);
});

test("a request comes to the engine at once; only its callback waits for requests before it", async () => {
  const slow = gate();
  const asked: string[] = [];
  const { locks, backend } = answering(async ({ name }, ask) => {
    asked.push(name);
    const answer = await ask();
    if (name === "web:slow") await slow.opened;
    return answer;
  });
  const called: string[] = [];
  // Another user of the same backend is a part of the same program.
  const requests = [
    createLocks(backend).web.request("slow", () => void called.push("slow")),
    locks.web.request("b", () => void called.push("b")),
    locks.web.request("c", { ifAvailable: true, mode: "shared" }, () => void called.push("c")),
  ];
  await late(20);
  expect(asked).toEqual(["web:slow", "web:b", "web:c"]);
  expect(called).toEqual([]);
  slow.open();
  await Promise.all(requests);
  expect(called).toEqual(["slow", "b", "c"]);
});

test("a request that is not answered holds others up for a second, once", async () => {
  const never = gate();
  const { locks } = answering(async ({ name }, ask) => {
    if (name === "web:stuck") await never.opened;
    return ask();
  });
  const stuck = locks.web.request("stuck", () => "in the end");
  const startMs = performance.now();
  await locks.web.request("b", () => undefined);
  expect(performance.now() - startMs).toBeGreaterThan(900);
  const againMs = performance.now();
  await locks.web.request("c", () => undefined);
  expect((await locks.web.query()).held).toEqual([]);
  expect(performance.now() - againMs).toBeLessThan(500);
  never.open();
  expect(await stuck).toBe("in the end");
});

test("a request that fails for the moment holds no other request up", async () => {
  let failures = 0;
  const { locks } = answering(({ name }, ask) => {
    if (name === "web:a" && failures++ < 3) return Promise.reject(new Error("not now"));
    return ask();
  });
  const called: string[] = [];
  await Promise.all(["a", "b"].map((name) => locks.web.request(name, () => void called.push(name))));
  expect(called).toEqual(["b", "a"]);
});

test("a request that is called off while its callback waits gives the lock back", async () => {
  const slow = gate();
  const { locks } = answering(async ({ name }, ask) => {
    const answer = await ask();
    if (name === "web:slow") await slow.opened;
    return answer;
  });
  const controller = new AbortController();
  const first = locks.web.request("slow", () => "first");
  const off = locks.web.request("b", { signal: controller.signal }, () => expect.fail("was called"));
  const next = locks.web.request("b", () => "next");
  await late(10);
  controller.abort("no longer");
  slow.open();
  await expect(off).rejects.toBe("no longer");
  expect(await Promise.all([first, next])).toEqual(["first", "next"]);
});

test("requests that are let in together are called in order, whichever of them hears of it first", async () => {
  const backend = memory();
  const watch = backend.watch.bind(backend);
  let watched = 0;
  backend.watch = (claim, notify) => {
    // The holder is the first. Of those that wait, the first one hears last.
    const delayMs = 30 - 10 * watched++;
    return watch(claim, (news) => void setTimeout(() => notify(news), delayMs));
  };
  const locks = createLocks(backend);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const end = gate();
  const called: number[] = [];
  const holder = locks.web.request("a", () => end.opened);
  const waiting = [1, 2].map((at) => locks.web.request("a", { mode: "shared" }, () => void called.push(at)));
  await locks.web.query();
  end.open();
  await Promise.all([holder, ...waiting]);
  expect(called).toEqual([1, 2]);
});

test("a request that steals and is stolen from before its callback is called says so", async () => {
  // Callbacks wait for the answer to a request before them. So all have stolen before any of them is called.
  const slow = gate();
  const bothStole = gate();
  const { backend } = answering(async ({ name }, ask) => {
    const answer = await ask();
    if (name === "web:slow") await slow.opened;
    return answer;
  });
  let stolen = 0;
  const locks = createLocks(backend, {
    onEvent: ({ type }) => {
      if (type === "lost" && ++stolen === 2) bothStole.open();
    },
  });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const first = locks.web.request("slow", () => "first");
  const lost = Promise.allSettled([
    locks.web.request("a", () => expect.fail("was called")),
    locks.web.request("a", { steal: true }, () => expect.fail("was called")),
  ]);
  const last = locks.web.request("a", { steal: true }, () => "last");
  await bothStole.opened;
  slow.open();
  expect(await Promise.all([first, last])).toEqual(["first", "last"]);
  for (const outcome of await lost) {
    expect(outcome).toMatchObject({ status: "rejected", reason: { name: "AbortError" } });
    const { cause } = (outcome as PromiseRejectedResult).reason as { cause: LeaseLostError };
    expect(cause).toMatchObject({ code: "lost", loss: "forced", reason: expect.stringContaining("stolen") });
    expect(cause.token).toBeGreaterThan(0n);
  }
});

test("a request that steals and loses its place otherwise enters the queue again", async () => {
  const backend = memory();
  const locks = createLocks(backend, { ttl: 500 });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  const end = gate();
  const victim = locks.web.request("a", () => end.opened).catch((error: Error) => error.name);
  await locks.web.query();
  const list = backend.list.bind(backend);
  // The engine forgets the place of the request that steals, and still knows the holder.
  backend.list = async function* (query) {
    backend.list = list;
    for await (const record of list(query)) {
      if (record.claims[1]) await backend.release(record.claims[1]);
      yield { ...record, claims: [] };
    }
  };
  expect(await locks.web.request("a", { steal: true }, () => "stolen")).toBe("stolen");
  expect(await victim).toBe("AbortError");
  end.open();
});
