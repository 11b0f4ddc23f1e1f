import { redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { RedisOptions } from "#lib/backends/redis/options.js";
import { SCRIPTS } from "#lib/backends/redis/scripts.js";
import type { Answer, Backend } from "#lib/core/backend.js";
import { WHOLE } from "#lib/core/claim.js";
import { claimRequest } from "../../support/claim-request.js";
import { type RedisSingle, startRedisSingle } from "./server.js";
import { CommandLog, LIBRARIES, look, proxyTo } from "./tools.js";

let server: RedisSingle;
beforeAll(async () => {
  server = await startRedisSingle();
});
afterAll(() => server.stop());

const names = (count: number, of: string): string[] =>
  Array.from({ length: count }, (_, index) => `${of}-${index}`);
const claim = (backend: Backend, name: string, more: Parameters<typeof claimRequest>[1] = {}) =>
  backend.claim(claimRequest(name, more));
const tryFor = (backend: Backend, name: string) => claim(backend, name, { queue: false });
const stateOf = ({ state }: Answer): string => state;

/** An engine whose connection is open and whose subscription stands, on a server that knows its scripts. */
async function open(options: RedisOptions): Promise<Backend> {
  const backend = redis(options);
  onTestFinished(() => backend.close());
  const client = look(server.node.port);
  for (const { lua } of Object.values(SCRIPTS)) await client.script("LOAD", lua);
  const warm = claimRequest("warm");
  const standing = new Promise<void>((resolve) => backend.watch(warm, () => resolve()));
  // With replicas it is no grant.
  await backend.claim(warm).catch(() => undefined);
  await backend.release(warm);
  await standing;
  return backend;
}

describe.each(LIBRARIES)("claims and releases of one turn, by %s", (library) => {
  const options = (prefix: string) => ({ url: server.url, library, prefix: `${library}-${prefix}` });

  test("they are one call, also those that the promises of the turn issue, and one alone goes as it is", async () => {
    const backend = await open(options("one"));
    const log = await CommandLog.of(server.node.port);
    const claims = names(10, "name").map((name) => claimRequest(name));
    const later = async (steps: number, request: (typeof claims)[0]) => {
      for (let step = 0; step < steps; step++) await undefined;
      return backend.claim(request);
    };
    const claimed = await log.during(() => Promise.all(claims.map((one, index) => later(index, one))));
    expect(claimed.scripts).toEqual([SCRIPTS.batch.sha]);
    const released = await log.during(async () => {
      expect(await Promise.all(claims.map((one) => backend.release(one)))).toEqual(claims.map(() => true));
    });
    expect(released.scripts).toEqual([SCRIPTS.batch.sha]);
    expect((await log.during(() => claim(backend, "alone"))).scripts).toEqual([SCRIPTS.claim.sha]);
  });

  test("a call has at most 64 of them, and at most 32 KiB", async () => {
    const backend = await open(options("most"));
    const log = await CommandLog.of(server.node.port);
    const many = await log.during(() => Promise.all(names(65, "few").map((name) => claim(backend, name))));
    expect(many.scripts).toEqual([SCRIPTS.batch.sha, SCRIPTS.claim.sha]);
    const note = "x".repeat(1_000);
    const long = await log.during(() =>
      Promise.all(names(60, "long").map((name) => claim(backend, name, { note }))),
    );
    expect(long.scripts).toEqual(names(3, "call").map(() => SCRIPTS.batch.sha));
  });

  test("what the callers of a long call ask next is sent while the others of them are told", async () => {
    const backend = await open(options("groups"));
    const log = await CommandLog.of(server.node.port);
    const both = async (one: ReturnType<typeof claimRequest>) => {
      await backend.claim(one);
      return backend.release(one);
    };
    const seen = await log.during(async () => {
      const claims = names(64, "name").map((name) => claimRequest(name));
      expect(await Promise.all(claims.map(both))).toEqual(claims.map(() => true));
    });
    expect(seen.scripts).toEqual(names(5, "call").map(() => SCRIPTS.batch.sha));
  });

  test("they are carried out in the order in which they were issued, and each gets its own answer", async () => {
    const [backend, other] = [await open(options("order")), await open(options("order"))];
    const held = names(8, "name").map((name) => claimRequest(name));
    await Promise.all(held.map((one) => backend.claim(one)));
    for (const taken of names(3, "taken")) await claim(other, taken);
    const asked: Promise<unknown>[] = [];
    const expected: unknown[] = [];
    for (const [index, one] of held.entries()) {
      asked.push(tryFor(backend, one.name).then(stateOf), backend.release(one));
      asked.push(tryFor(backend, one.name).then(stateOf), backend.release(one));
      asked.push(tryFor(backend, `taken-${index % 3}`).then(stateOf));
      expected.push("refused", true, "granted", false, "refused");
    }
    expect(await Promise.all(asked)).toEqual(expected);
  });

  test("what is not sent together with them comes behind those that were issued before it", async () => {
    const backend = await open(options("behind"));
    const first = claimRequest("name");
    const claimed = backend.claim(first);
    const listed: string[] = [];
    for await (const { claims } of backend.list({ name: "name" })) listed.push(...claims.map(({ id }) => id));
    expect(listed).toEqual([first.id]);
    expect(stateOf(await claimed)).toBe("granted");
    const second = claimRequest("name");
    const both = [backend.claim(second), backend.release(first, { reason: "a test" })];
    expect(await Promise.all(both)).toMatchObject([{ state: "waiting" }, true]);
  });

  test("one that the server cannot serve fails alone", async () => {
    const backend = await open(options("bad"));
    await look(server.node.port).rpush(`${library}-bad:{name-3}`, "theirs");
    const log = await CommandLog.of(server.node.port);
    let outcomes: readonly PromiseSettledResult<Answer>[] = [];
    const seen = await log.during(async () => {
      outcomes = await Promise.allSettled(names(6, "name").map((name) => claim(backend, name)));
    });
    expect(seen.scripts).toEqual([SCRIPTS.batch.sha]);
    expect(outcomes.map(({ status }) => status).indexOf("rejected")).toBe(3);
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(5);
    expect(outcomes[3]).toMatchObject({ reason: { code: "backend", retryable: false } });
  });

  test("the notifications of one that failed are not sent by the next one", async () => {
    const [backend, other] = [await open(options("leak")), await open(options("leak"))];
    const part = { capacity: 2, weight: 1 };
    const holder = claimRequest("broken", { capacity: 2, weight: 2 });
    await backend.claim(holder);
    const [first, second] = [claimRequest("broken", part), claimRequest("broken", part)];
    const told: unknown[] = [];
    other.watch(first, (notification) => {
      if (notification !== undefined) told.push(notification);
    });
    await other.claim(first);
    await other.claim(second);
    // So the release lets the first waiter in, and fails at the second, before it has written what it did.
    await look(server.node.port).hset(`${library}-leak:{broken}:claims`, second.id, "theirs");
    const [mark, marked] = [claimRequest("mark"), claimRequest("mark")];
    await backend.claim(mark);
    const heard = new Promise((resolve) => other.watch(marked, (known) => known && resolve(known)));
    await other.claim(marked);
    const outcomes = await Promise.allSettled([backend.release(holder), backend.release(mark)]);
    expect(outcomes).toMatchObject([{ status: "rejected" }, { status: "fulfilled", value: true }]);
    // What was left behind would have come first, on the same channel.
    await heard;
    expect(told).toEqual([]);
  });

  test("where one name is forbidden, each of the others is served", async () => {
    const admin = look(server.node.port);
    const prefix = `${library}-acl`;
    const rights = ["on", ">secret", `~${prefix}:{a*`, "&*", "+@all"];
    await admin.call("ACL", "SETUSER", prefix, "reset", ...rights);
    onTestFinished(async () => void (await admin.call("ACL", "DELUSER", prefix)));
    const url = server.url.replace("://", `://${prefix}:secret@`);
    const backend = redis({ url, library, prefix });
    onTestFinished(() => backend.close());
    const asked = ["a1", "b1", "a2", "a3"].map((name) => claim(backend, name));
    expect(await Promise.allSettled(asked)).toMatchObject([
      { value: { state: "granted" } },
      { reason: { code: "backend", retryable: false, message: expect.stringContaining("NOPERM") } },
      { value: { state: "granted" } },
      { value: { state: "granted" } },
    ]);
  });

  test("a server that has forgotten the script gets its text", async () => {
    const backend = await open(options("forgotten"));
    const log = await CommandLog.of(server.node.port);
    const client = look(server.node.port);
    const seen = await log.during(async () => {
      await client.script("FLUSH");
      const answers = await Promise.all(names(5, "name").map((name) => claim(backend, name)));
      expect(answers.map(stateOf)).toEqual(answers.map(() => "granted"));
    });
    expect(seen.asked.filter((command) => command.startsWith("eval"))).toEqual(["evalsha", "eval"]);
  });

  test("with full memory what is held is given back, and nothing new is taken, in whatever order they come", async () => {
    const backend = await open(options("full"));
    const held = names(4, "held").map((name) => claimRequest(name));
    await Promise.all(held.map((one) => backend.claim(one)));
    // One with a queue: its release writes what needs no memory.
    const waiter = claimRequest("held-0");
    const { ticket } = (await backend.claim(waiter)) as Answer & { ticket: bigint };
    const client = look(server.node.port);
    await client.config("SET", "maxmemory", "1mb"); // it uses more than that already
    onTestFinished(async () => void (await client.config("SET", "maxmemory", "0")));
    const releases = held.map((one) => backend.release(one));
    const claims = names(3, "new").map((name) => claim(backend, name));
    expect(await Promise.all(releases)).toEqual(held.map(() => true));
    const refused = { reason: { code: "backend", retryable: true, message: expect.stringContaining("OOM") } };
    expect(await Promise.allSettled(claims)).toMatchObject(claims.map(() => refused));
    const again = [backend.claim({ ...waiter, ticket }), tryFor(backend, "held-0")];
    expect((await Promise.all(again)).map(stateOf)).toEqual(["granted", "refused"]);
  });

  test("where the answer is lost, a claim is asked for by itself, a release fails, and the call is not sent again", async () => {
    const { proxy, url } = await proxyTo(server.url);
    const backend = await open({ ...options("lost"), url });
    const [held, next] = [claimRequest("name"), claimRequest("name")];
    await backend.claim(held);
    const log = await CommandLog.of(server.node.port);
    const seen = await log.during(async () => {
      const cut = proxy.cutBeforeReply();
      const both = await Promise.allSettled([backend.release(held), backend.claim(next)]);
      await cut;
      expect(both).toMatchObject([
        { reason: { code: "backend", retryable: true } },
        { value: { state: "granted" } },
      ]);
    });
    expect(seen.scripts.filter((sha) => sha === SCRIPTS.batch.sha)).toHaveLength(1);
    expect(seen.scripts).toContain(SCRIPTS.claim.sha);
    expect(seen.scripts).not.toContain(SCRIPTS.release.sha);
  });

  test("without an answer each of them fails in time, counted from the call of the engine", async () => {
    const { proxy, url } = await proxyTo(server.url);
    const backend = await open({ ...options("silent"), url, timeout: "600ms" });
    const log = await CommandLog.of(server.node.port);
    const seen = await log.during(async () => {
      proxy.blackhole("to-client");
      const failedAtMs = async (asked: Promise<unknown>) => {
        await expect(asked).rejects.toMatchObject({ code: "backend", retryable: true });
        return performance.now();
      };
      const startMs = performance.now();
      const asked = [failedAtMs(claim(backend, "a")), failedAtMs(claim(backend, "b"))];
      // The turn lasts; what was issued in it is sent at its end, as is this question.
      while (performance.now() < startMs + 500);
      const listing = failedAtMs(backend.list({ name: "a" })[Symbol.asyncIterator]().next());
      for (const atMs of await Promise.all(asked)) {
        expect(atMs - startMs).toBeGreaterThan(550);
        expect((await listing) - atMs).toBeGreaterThan(200);
      }
    });
    expect(seen.scripts.slice(0, 1)).toEqual([SCRIPTS.batch.sha]);
    proxy.heal();
  });

  test("with replicas the claims are one call with one question behind it, on their own connection", async () => {
    const backend = await open({ ...options("replicas"), replicas: 1, timeout: "400ms" });
    const log = await CommandLog.of(server.node.port);
    const seen = await log.during(async () => {
      const outcomes = await Promise.allSettled(names(5, "name").map((name) => claim(backend, name)));
      // There is no replica.
      expect(outcomes.every(({ status }) => status === "rejected")).toBe(true);
    });
    expect(seen.scripts.filter((sha) => sha === SCRIPTS.batch.sha)).toHaveLength(1);
    expect(seen.asked.filter((command) => command === "wait").length).toBe(1);
  });
});

test("a claim of part of a lock, and one of a lock with a queue, are carried out like those that came alone", async () => {
  const backend = await open({ url: server.url, prefix: "kinds" });
  const reads = names(3, "id").map((id) => claimRequest("shared", { id, capacity: WHOLE, weight: 1 }));
  const write = claimRequest("shared");
  const mixed = [
    ...reads,
    write,
    claimRequest("shared", { queue: false }),
    claimRequest("shared", { maxWaiters: 1 }),
  ];
  const answers = await Promise.all(mixed.map((one) => backend.claim(one)));
  expect(answers.map(stateOf)).toEqual([...reads.map(() => "granted"), "waiting", "refused", "queue-full"]);
  const tickets = answers.flatMap((answer) => ("ticket" in answer ? [answer.ticket] : []));
  expect(tickets).toEqual([...new Set(tickets)].sort((a, b) => (a < b ? -1 : 1)));
  const told = new Promise((resolve) =>
    backend.watch(write, (notification) => notification && resolve(notification)),
  );
  expect(await Promise.all(reads.map((one) => backend.release(one)))).toEqual([true, true, true]);
  expect(await told).toMatchObject({ state: "granted" });
});
