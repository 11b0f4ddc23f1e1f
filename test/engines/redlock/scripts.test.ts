import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { SCRIPTS } from "#lib/backends/redlock/node.js";
import { startRedisServers } from "../redis/server.js";

// What one node does, whatever order messages arrive in.

const servers = await startRedisServers(1);
const client = new Redis(servers.ports[0] ?? 0);
afterAll(async () => {
  client.disconnect();
  await servers.stop();
});

const WHOLE = 2 ** 31 - 1;
const SECOND_US = 1_000_000;
const MAX_TTL_MS = 60_000;
const HEAD = "p:quorum:{a}";
const KEYS = [HEAD, `${HEAD}:forced`];
const BORN = "p:quorum:born";

interface Ask {
  readonly attempt?: number;
  readonly ticket?: number;
  readonly ttlUs?: number;
  readonly floor?: number;
  readonly weight?: number;
  readonly minHoldUs?: number;
  readonly maxTtlMs?: number;
  readonly waits?: boolean;
  readonly verify?: boolean;
}

async function claim(id: string, ask: Ask = {}): Promise<readonly (string | number)[]> {
  const { attempt = 1, ticket = 0, ttlUs = SECOND_US, floor = 0, weight = WHOLE, minHoldUs = 0 } = ask;
  const grantUs = Math.max(ttlUs, minHoldUs);
  const asked = `${attempt} ${ticket} ${ttlUs} ${grantUs} ${floor} ${ask.maxTtlMs ?? MAX_TTL_MS} 1000 2000`;
  const args = [id, `${weight} 0 ${minHoldUs} [{},""]`, `${asked} ${ask.waits ? 1 : 0}`];
  if (ask.verify) args.push("verify");
  return (await client.eval(SCRIPTS.claim.lua, 3, ...KEYS, BORN, ...args)) as (string | number)[];
}

const release = (id: string, attempt: number, ...ending: string[]) =>
  client.eval(SCRIPTS.release.lua, 2, ...KEYS, id, attempt, 1_000, "p:quorum:bell lock:a", ...ending);
const settle = (id: string, attempt: number, ticket: number, ...how: "raise"[]) =>
  client.eval(SCRIPTS.settle.lua, 2, ...KEYS, id, attempt, ticket, 1_000, ...how);
const renew = (id: string, ticket: number) =>
  client.eval(SCRIPTS.renew.lua, 2, ...KEYS, 1_000, id, ticket, SECOND_US);

beforeEach(async () => {
  await client.flushall();
  await client.config("SET", "maxmemory", "0");
  await client.eval(SCRIPTS.greet.lua, 1, BORN, MAX_TTL_MS, "declare");
});

describe("attempts", () => {
  test("a later attempt takes over what an earlier one got, with its ticket, and it is one claim", async () => {
    const [ticket] = await claim("me");
    expect(await claim("me", { attempt: 2 })).toMatchObject({ 0: "granted", 1: ticket });
    expect(String(await client.get(HEAD)).split("\n")).toHaveLength(2);
  });

  test("nothing of an earlier attempt touches a later one", async () => {
    const [ticket] = await claim("me", { attempt: 2 });
    expect(await release("me", 1, "unused")).toBe(0);
    expect(await settle("me", 1, Number(ticket) + 9)).toBe(0);
    expect(await claim("me", { attempt: 1 })).toEqual(["gone", ""]);
    expect(await claim("other")).toMatchObject({ 0: "refused", 1: "me" });
    expect(await release("me", 2)).toBe(1);
    expect(await release("me", 2)).toBe(0);
  });

  test("a claim of another client is not touched", async () => {
    const [ticket] = await claim("me");
    expect(await release("other", 9)).toBe(0);
    expect(await settle("other", 1, Number(ticket) + 9)).toBe(0);
    expect(await renew("other", Number(ticket))).toEqual([["gone", ""]]);
    expect(await renew("me", Number(ticket))).toMatchObject([["held", expect.any(Number)]]);
  });
});

describe("tickets", () => {
  test("they grow by themselves, follow the lowest that is asked for, and a settled one", async () => {
    const [first = 0, at = 0] = (await claim("me")) as number[];
    await release("me", 1);
    const [second = 0] = (await claim("me", { floor: at + SECOND_US / 2 })) as number[];
    expect(second).toBe(at + SECOND_US / 2);
    expect(second).toBeGreaterThan(first);
    expect(await settle("me", 1, second + 5)).toBe(1);
    await release("me", 1);
    expect(Number((await claim("me"))[0])).toBe(second + 6);
  });

  test("until one is handed out, a claim keeps what it has drawn if that is more", async () => {
    const [drawn = 0] = (await claim("me")) as number[];
    expect(await settle("me", 1, drawn - 5, "raise")).toBe(1);
    expect((await claim("me", { attempt: 2 }))[1]).toBe(drawn);
    expect(await settle("me", 2, drawn + 5, "raise")).toBe(1);
    expect((await claim("me", { attempt: 3 }))[1]).toBe(drawn + 5);
    expect(await settle("me", 3, drawn - 5)).toBe(1);
    expect((await claim("me", { attempt: 4 }))[1]).toBe(drawn - 5);
    await release("me", 4);
    expect((await claim("me"))[0]).toBeGreaterThan(drawn + 5);
  });

  test("a client that asks for one far ahead does not use up those of the others", async () => {
    const [first = 0] = (await claim("me", { floor: 9e15 })).slice(1) as number[];
    expect(first).toBeLessThan(3e15);
  });

  test("the counter is kept until the clock has caught up, though its retention is shorter", async () => {
    const [drawn = 0] = (await claim("me")) as number[];
    await settle("me", 1, drawn + 3_600 * SECOND_US);
    await release("me", 1);
    expect(await client.pttl(HEAD)).toBeGreaterThan(3_590_000);
    expect(await client.get(HEAD)).toBe(String(drawn + 3_600 * SECOND_US));
  });
});

describe("a node that may have forgotten something", () => {
  test("without its key it does not vote, and says for how long", async () => {
    await client.del(BORN);
    expect(await claim("me")).toEqual(["young", MAX_TTL_MS * 1_000]);
    const [state, leftUs] = await claim("me");
    expect(state).toBe("young");
    expect(Number(leftUs)).toBeLessThan(MAX_TTL_MS * 1_000);
  });

  test("after another start of the server it does not vote, as soon as a client has it look", async () => {
    const [since, agreed] = String(await client.get(BORN)).split(" ");
    await client.set(BORN, `${since} ${agreed} 0123456789`);
    expect(await claim("me", { verify: true })).toEqual(["young", MAX_TTL_MS * 1_000]);
    expect((await claim("me"))[0]).toBe("young");
  });

  test("but it keeps, extends and gives back the claims that it has", async () => {
    const [ticket] = await claim("me");
    await client.del(BORN);
    const known = { attempt: 2, ticket: Number(ticket) };
    expect(await claim("me", known)).toMatchObject({ 0: "granted", 1: ticket });
    expect(await renew("me", Number(ticket))).toMatchObject([["held", expect.any(Number)]]);
    expect(await release("me", 2)).toBe(1);
  });

  test("a vote of an earlier attempt is no vote any more: it may be older than what was forgotten", async () => {
    await claim("me");
    await client.set(BORN, `0 ${MAX_TTL_MS} 0123456789`);
    expect((await claim("me", { attempt: 2, verify: true }))[0]).toBe("young");
  });

  test("a clock that is set back to before its birth costs it the same time again, and no more", async () => {
    const [, runId = ""] = /run_id:(\w+)/.exec(await client.info("server")) ?? [];
    await client.set(BORN, `${9e15} ${MAX_TTL_MS} ${runId}`);
    expect(await claim("me")).toEqual(["young", MAX_TTL_MS * 1_000]);
  });

  test("the longer of two times counts, from its birth on, and a client that says the shorter one is told", async () => {
    expect(await claim("me", { maxTtlMs: 2 * MAX_TTL_MS })).toMatchObject({ 0: "granted" });
    expect(await claim("other", { maxTtlMs: MAX_TTL_MS })).toEqual(["max-ttl", 2 * MAX_TTL_MS]);
  });
});

describe("a node that was never asked", () => {
  const greet = async (...declaration: string[]) =>
    (await client.eval(SCRIPTS.greet.lua, 1, BORN, ...declaration)) as [runId: string, born: string];
  const declare = (mark: string) => greet(String(MAX_TTL_MS), "declare", mark);
  beforeEach(() => client.del(BORN));

  test("it keeps its mark, and votes at once when it is declared new by that mark", async () => {
    const [runId, mark] = await greet();
    expect(mark).toMatch(new RegExp(`^new \\d+ ${runId}$`));
    expect(await greet()).toEqual([runId, mark]);
    expect(await declare("")).toEqual([runId, mark]);
    const [, born] = await declare(mark);
    expect(born).toMatch(/^\d+ /);
    expect(await greet()).toEqual([runId, born]);
    expect((await claim("me"))[0]).toBeGreaterThan(0);
  });

  test("its mark is void when it was asked, flushed or started anew", async () => {
    const [, asked] = await greet();
    expect((await claim("me"))[0]).toBe("young");
    await declare(asked);
    expect((await claim("me"))[0]).toBe("young");
    await client.del(BORN);
    await declare(asked);
    expect((await claim("me"))[0]).toBe("young");
    await client.set(BORN, "new 1 0123456789");
    await declare("new 1 0123456789");
    expect((await claim("me"))[0]).toBe("young");
  });
});

test("a waiter that was refused is notified once, when the lock is given back", async () => {
  const listener = client.duplicate();
  const heard: string[] = [];
  listener.on("message", (_: string, message: string) => heard.push(message));
  await listener.subscribe("p:quorum:bell");
  await claim("me");
  await claim("other", { waits: false });
  expect(await release("me", 1)).toBe(1);
  await claim("me");
  await claim("other", { waits: true });
  await claim("third", { waits: true });
  expect(await release("me", 1)).toBe(2);
  await expect.poll(() => heard).toEqual(["0 lock:a ask"]);
  listener.disconnect();
});

test("while the server's memory is full no client is let in, and a lock is kept and given back", async () => {
  const [ticket] = await claim("me", { ttlUs: 30 * SECOND_US });
  await client.config("SET", "maxmemory", "1");
  expect((await claim("other"))[0]).toBe("refused");
  expect(await renew("me", Number(ticket))).toMatchObject([["held", expect.any(Number)]]);
  // Its counter is kept, too: it may be ahead of the clock.
  const last = Number(ticket) + SECOND_US / 2;
  await settle("me", 1, last);
  expect(await release("me", 1)).toBe(1);
  await expect(claim("other")).rejects.toThrow("OOM");
  await client.config("SET", "maxmemory", "0");
  expect((await claim("other"))[0]).toBeGreaterThan(last);
});

test.each(["x", "", "5 later", "5w later", '{"v":2}', "5\nlater", "5\nme 1 1 later"])(
  "a head that the scripts cannot read is an error, never a grant and never a loss: %j",
  async (head) => {
    await client.set(HEAD, head);
    await expect(claim("me")).rejects.toThrow();
    await expect(claim("me", { ticket: 5 })).rejects.toThrow();
    await expect(renew("me", 5)).rejects.toThrow();
    await expect(settle("me", 1, 5)).rejects.toThrow();
    await expect(release("me", 1)).rejects.toThrow();
    await expect(client.eval(SCRIPTS.list.lua, 2, ...KEYS)).rejects.toThrow();
    expect(await client.get(HEAD)).toBe(head);
  },
);
