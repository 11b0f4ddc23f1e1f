import { setTimeout as sleep } from "node:timers/promises";
import { createLocks, type Locks } from "locktender";
import type { Backend } from "locktender/engine-kit";
import { etcd } from "locktender/etcd";
import { type FaultProxy, startFaultProxy } from "locktender/testing";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { claimRequest } from "../../support/claim-request.js";
import { type Etcd, startEtcd } from "./server.js";

let server: Etcd;
let proxy: FaultProxy;
beforeAll(async () => {
  server = await startEtcd();
  const { host, port } = server.nodes[0] as Etcd["nodes"][number];
  proxy = await startFaultProxy({ target: { host, port } });
});
afterAll(async () => {
  await proxy.close();
  await server.stop();
});

function open(url: string): Locks {
  const locks = createLocks(etcd({ url, timeout: "1s" }), { ttl: "3s" });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

/** A client whose requests can be held back, with a session that goes on; and another one. */
async function two(): Promise<[slow: Locks, other: Locks]> {
  const slow = open(`etcd://${proxy.host}:${proxy.port}`);
  await slow.mutex("another").tryAcquire();
  return [slow, open(server.url)];
}

/** The request that names this key for the nth time. */
function nth(count: number, name: string): (data: Buffer) => boolean {
  let seen = 0;
  return (data) => data.includes(`${name}/`) && ++seen === count;
}

describe("a request is delivered when it was asked again long ago", () => {
  test("a claim: what was granted, and taken away since, does not come back", async () => {
    const [slow, other] = await two();
    const held = proxy.holdBack(nth(1, "claimed"));
    const lease = await slow.mutex("claimed").acquire();
    await other.forceRelease("claimed", { reason: "test" });
    await expect.poll(() => lease.held).toBe(false);
    await held.deliver();
    await sleep(200);
    expect(await other.mutex("claimed").tryAcquire()).not.toBeNull();
  });

  test("the lease of its own that a fixed length got at first does not shorten it: no other caller is let in", async () => {
    const [slow, other] = await two();
    const held = proxy.holdBack(nth(2, "fixed"));
    const lease = await slow.mutex("fixed").acquire({ renew: false, ttl: "3s", wait: "20s" });
    await held.deliver();
    const next = await other.mutex("fixed").acquire({ wait: "20s" });
    expect(lease.held).toBe(false);
    expect(next.token).toBeGreaterThan(lease.token);
  });
});

describe("a claim is refused, and its removal is not answered", () => {
  const request = (id: string, capacity: number) =>
    claimRequest("refused", { id, weight: 1, capacity, ttlMs: 3_000 });

  /** Connected already: that must not take its time from the first request, of which a busy machine has little. */
  async function backend(url: string): Promise<Backend> {
    const made = etcd({ url, timeout: "500ms" });
    onTestFinished(() => made.close());
    const look = async () => {
      for await (const { name } of made.list({ name: "nothing" })) return name;
      return undefined;
    };
    await expect.poll(() => look().catch((error: unknown) => error), { timeout: 10_000 }).toBeUndefined();
    return made;
  }

  test.each(["is lost on the way", "is carried out, and its answer is lost"])(
    "the removal %s",
    async (fate) => {
      const slow = await backend(`etcd://${proxy.host}:${proxy.port}`);
      const other = await backend(server.url);
      const id = `slow ${fate}`.replaceAll(/\W+/g, "-");
      const holders = [`first-${id}`, `second-${id}`];
      for (const holder of holders) expect((await other.claim(request(holder, 2))).state).toBe("granted");
      // The first request with this id makes the claim, the second one removes it.
      const match = nth(2, "refused");
      const held = fate.startsWith("is lost") ? proxy.holdBack(match) : undefined;
      const cut = held === undefined ? proxy.cutBeforeReply(match) : undefined;
      await expect(slow.claim(request(id, 3))).rejects.toMatchObject({ code: "backend", retryable: true });
      await (held?.caught ?? cut);
      proxy.dropAll();
      // As core does: the same request again. Two of three permits would be free, but there are only two in all.
      const again = () => slow.claim(request(id, 3)).catch((error: unknown) => error as Error);
      await expect.poll(again, { timeout: 5_000 }).toMatchObject({ state: "capacity-mismatch", capacity: 2 });
      for (const holder of holders) expect(await other.release({ name: "refused", id: holder })).toBe(true);
      // Now it is free: what is granted stays, whatever was still to be removed.
      expect((await slow.claim(request(id, 3))).state).toBe("granted");
      await sleep(2_000);
      const ids: string[] = [];
      for await (const { claims } of other.list({ name: "refused" }))
        ids.push(...claims.map((claim) => claim.id));
      expect(ids).toEqual([id]);
      await slow.release({ name: "refused", id });
    },
  );
});
