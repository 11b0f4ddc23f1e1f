import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { createLocks } from "locktender";
import { etcd } from "locktender/etcd";
import { expect, onTestFinished, test } from "vitest";
import { shared } from "../../servers/shared.js";
import { hostsOf } from "../../support/hosts-of.js";
import { alteredReplies, type Reply } from "./altered-replies.js";

let last = 0;

async function start() {
  const { url } = await shared("etcd");
  const [host] = hostsOf(url);
  const altered = await alteredReplies(`${host?.host}:${host?.port}`);
  const prefix = `altered-${process.pid}-${++last}`;
  const locks = createLocks(etcd({ url: altered.url, prefix, timeout: "1s" }), { ttl: "3s" });
  /** Another process, whose replies are not altered. */
  const others = createLocks(etcd({ url, prefix }), { ttl: "3s" });
  onTestFinished(async () => {
    await others.close({ drain: 0, abort: 0 });
    altered.alter = (_, reply) => reply;
    await locks.close({ drain: 0, abort: 0 });
    altered.close();
  });
  return { altered, locks, others };
}

test("with nothing changed on the way, all is as ever", async () => {
  const { locks } = await start();
  const lease = await locks.mutex("a").acquire();
  const waiting = locks.mutex("a").acquire();
  await sleep(100);
  expect(await lease.release()).toBe(true);
  expect(await (await waiting).release()).toBe(true);
});

const eachRange = (change: (range: Reply) => Reply) => (reply: Reply) => ({
  ...reply,
  responses: reply.responses.map((part: Reply) =>
    part.response_range ? { response_range: change(part.response_range) } : part,
  ),
});
const eachKey = (change: (kv: Reply) => Reply) =>
  eachRange((range) => ({ ...range, kvs: range.kvs.map(change) }));

/** What a transaction may be answered with, none of which is an answer to it. */
const TXN: Readonly<Record<string, (reply: Reply) => Reply>> = {
  "no header": (reply) => ({ ...reply, header: null }),
  "no responses": (reply) => ({ ...reply, responses: [] }),
  "responses of nothing": (reply) => ({ ...reply, responses: reply.responses.map(() => ({})) }),
  "one response less": (reply) => ({ ...reply, responses: reply.responses.slice(1) }),
  "responses to something else": (reply) => ({ ...reply, responses: [...reply.responses].reverse() }),
  "no keys": eachRange((range) => ({ ...range, kvs: [] })),
  "keys of revision 0": eachKey((kv) => ({ ...kv, create_revision: "0" })),
  "keys of a revision below 0": eachKey((kv) => ({ ...kv, create_revision: "-5" })),
  "the other branch": (reply) => ({ ...reply, succeeded: !reply.succeeded }),
};

test.each(Object.entries(TXN))("a transaction that is answered with %s grants nothing", async (_, change) => {
  const { altered, locks, others } = await start();
  await others.mutex("a").acquire();
  altered.alter = (method, reply) => (method === "Txn" ? change(reply) : reply);
  await expect(locks.mutex("b").tryAcquire()).rejects.toMatchObject({ code: "backend" });
  const second = await locks
    .mutex("a")
    .tryAcquire()
    .catch((error: unknown) => error);
  expect(second).toMatchObject({ code: "backend" });
});

test.each(["Range", "LeaseGrant", "LeaseKeepAlive", "LeaseTimeToLive", "Txn"])(
  "an empty answer to %s is a typed error, or nothing is asked",
  async (method) => {
    const { altered, locks } = await start();
    const lease = await locks.mutex("a").acquire();
    altered.alter = (name, reply) => (name === method ? {} : reply);
    const outcomes = await Promise.allSettled([
      locks.mutex("b").tryAcquire({ ttl: "5s" }),
      locks.inspect("a"),
      locks.cell("c").read(),
      locks.cell("c").write(1),
      locks.semaphore("s", 2).tryAcquire(),
      lease.update({ note: "still here" }),
    ]);
    const failures = outcomes.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    for (const failure of failures) expect(failure).toMatchObject({ code: "backend" });
    if (method !== "LeaseKeepAlive") expect(failures.length).toBeGreaterThan(0);
  },
);

test("an event of nothing does not end the process, and what happened is told all the same", async () => {
  const { altered, locks } = await start();
  const lease = await locks.mutex("a").acquire();
  let spoilt = 0;
  altered.alter = (method, reply) => {
    if (method !== "Watch" || reply.events.length === 0 || ++spoilt > 1) return reply;
    return { ...reply, events: [{ type: 0, kv: null }] };
  };
  const [told] = await Promise.all([
    once(lease.signal, "abort"),
    locks.forceRelease("a", { reason: "it has been hanging since noon" }),
  ]);
  expect(told).toBeDefined();
  expect(lease.signal.reason).toMatchObject({ loss: "forced", reason: "it has been hanging since noon" });
  expect(spoilt).toBeGreaterThan(0);
});
