import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { createLocks, type LockEvent } from "locktender";
import { redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { type RedisSingle, startRedisSingle } from "./server.js";
import { LIBRARIES, look, open, proxyTo, queued } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

/** Writes down the ids that are asked with: they are capabilities, and no error may show one. */
function remembering(backend: Backend, ids: Set<string>): Backend {
  const claim = backend.claim.bind(backend);
  backend.claim = (request) => {
    ids.add(request.id);
    return claim(request);
  };
  return backend;
}

describe.each(LIBRARIES)("trouble on the server, by %s", (library) => {
  const options = (prefix: string) => ({ url: server.url, library, prefix: `${library}-${prefix}` });

  test("another program's value at our key is an error for good, shows no claim's id, and is left alone", async () => {
    const ids = new Set<string>();
    const locks = createLocks(remembering(redis(options("taken")), ids));
    onTestFinished(() => locks.close());
    const client = look(server.node.port);
    await client.rpush(`${library}-taken:{list}`, "theirs");
    await client.set(`${library}-taken:{text}`, "hello world");
    for (const name of ["list", "text"]) {
      for (const asked of [locks.mutex(name).tryAcquire(), locks.mutex(name).acquire({ wait: "20s" })]) {
        const error = await asked.catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ code: "backend", retryable: false });
        const shown = `${inspect(error, { depth: 9, showHidden: true })} ${(error as Error).stack}`;
        for (const id of ids) expect(shown).not.toContain(id);
      }
    }
    expect(ids.size).toBeGreaterThanOrEqual(4);
    expect(await client.lrange(`${library}-taken:{list}`, 0, -1)).toEqual(["theirs"]);
    expect(await client.get(`${library}-taken:{text}`)).toBe("hello world");
  });

  test("one lock that the server cannot serve does not cost the others of its batch their leases", async () => {
    const events: LockEvent[] = [];
    const locks = open(options("batch"), { ttl: "600ms", onEvent: (event) => events.push(event) });
    const names = Array.from({ length: 10 }, (_, index) => `name-${index}`);
    const leases = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
    const client = look(server.node.port);
    const key = `${library}-batch:{name-4}`;
    await client.multi().del(key).rpush(key, "theirs").exec();
    await sleep(1_300);
    expect(leases.filter((lease) => !lease.held).map(({ name }) => name)).toEqual(["name-4"]);
    expect(leases[4]?.signal.reason).toMatchObject({ code: "lost" });
    expect(events.some(({ type }) => type === "renew-failed")).toBe(true);
    await client.del(key);
  });

  test("a connection that breaks on the way is said to be just that, and not what a library is set up to do then", async () => {
    const { proxy, url } = await proxyTo(server.url);
    const locks = open({ ...options("broken"), url });
    await locks.mutex("a").run(() => undefined);
    const cut = proxy.cutBeforeReply().then(() => proxy.refuse());
    const error = await locks
      .mutex("a")
      .tryAcquire()
      .catch((thrown: unknown) => thrown);
    await cut;
    expect(error).toMatchObject({ code: "backend", retryable: true });
    expect(String(error)).toMatch(/not connected|closed|ECONN/i);
    expect(String(error)).not.toContain("maxRetriesPerRequest");
  });

  test("a request whose connection breaks is repeated on a new one, but for a release, which is said to have been done", async () => {
    const { proxy, url } = await proxyTo(server.url);
    const locks = open({ ...options("repeated"), url });
    await locks.mutex("a").run(() => undefined);
    let cut = proxy.cutBeforeReply();
    const lease = await locks.mutex("a").tryAcquire();
    await cut;
    cut = proxy.cutBeforeReply();
    expect((await locks.inspect("a")).holders).toMatchObject([{ token: lease?.token }]);
    await cut;
    cut = proxy.cutBeforeReply();
    expect(await lease?.release()).toBe(true);
    await cut;
    cut = proxy.cutBeforeReply();
    const names: string[] = [];
    await locks.mutex("b").run(async () => {
      for await (const { name } of locks.list({ prefix: "" })) names.push(name);
    });
    await cut;
    expect(names).toEqual(["b"]);
  });

  test("a full memory is an error that may pass, never a grant, and a holder keeps its lock", async () => {
    const locks = open(options("full"), { ttl: "800ms" });
    const client = look(server.node.port);
    const held = await locks.mutex("held").acquire();
    const freed = await locks.mutex("freed").acquire();
    await client.config("SET", "maxmemory", "1mb"); // it uses more than that already
    onTestFinished(async () => void (await client.config("SET", "maxmemory", "0")));
    await expect(client.set("more", "x")).rejects.toThrow(/OOM/);
    const refused = locks.mutex("new").tryAcquire();
    await expect(refused).rejects.toMatchObject({ code: "backend", retryable: true });
    await expect(refused).rejects.toThrow(/memory/);
    const waiting = locks.mutex("new").acquire({ wait: 200 });
    await expect(waiting).rejects.toMatchObject({ code: "backend" });
    await expect(locks.mutex("held").tryAcquire()).resolves.toBeNull();
    await sleep(1_000);
    expect(held.held, "its renewal needs no memory").toBe(true);
    expect(await freed.release(), "giving back needs no memory").toBe(true);
  });

  test("a waiter for a lease of fixed time, or with a minimal one, is let in with full memory, too", async () => {
    const [locks, others] = [
      open(options("let-in"), { ttl: "20s" }),
      open(options("let-in"), { ttl: "20s" }),
    ];
    const client = look(server.node.port);
    const kinds = [{ renew: false }, { minHold: 50 }] as const;
    const held = await Promise.all(kinds.map((_, index) => locks.mutex(`kind ${index}`).acquire()));
    const waits = kinds.map((kind, index) => others.mutex(`kind ${index}`).acquire(kind));
    for (const wait of waits) wait.catch(() => undefined);
    for (const lease of held) await queued(locks, lease.name, 1);
    await client.config("SET", "maxmemory", "1mb");
    onTestFinished(async () => void (await client.config("SET", "maxmemory", "0")));
    for (const [index, lease] of held.entries()) {
      const startedAt = performance.now();
      expect(await lease.release()).toBe(true);
      expect(await (await waits[index])?.release()).toBe(true);
      expect(performance.now() - startedAt).toBeLessThan(2_000);
    }
  });

  test("a script that another program lets run for too long is an outage that passes", async () => {
    const locks = open({ ...options("busy"), timeout: "500ms" }, { ttl: "8s" });
    const client = look(server.node.port);
    const killer = look(server.node.port);
    const lease = await locks.mutex("held").acquire();
    await killer.config("SET", "busy-reply-threshold", "100");
    const stuck = client.eval("while true do end", 0).catch(() => undefined);
    const asked = locks.mutex("asked").acquire({ wait: "10s" });
    await sleep(700);
    await killer.script("KILL");
    await stuck;
    expect((await asked).held).toBe(true);
    expect(lease.held).toBe(true);
  });
});
