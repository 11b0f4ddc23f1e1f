import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { connect } from "locktender";
import {
  databaseStore,
  FENCING_TOKEN,
  type FenceStore,
  fencedFetch,
  fenceProblem,
  fenceTable,
  fencingToken,
  httpFence,
  memoryStore,
  redisStore,
} from "locktender/fence";
import pg from "pg";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { shared } from "../servers/shared.js";
import { freshDatabaseWith } from "./servers.js";

const TOKEN = 1_837_880_256_828_234_752n;
const NAME = `stock:l\u00e1mp "50%" \u{1f4a1}`;

const asking = (header?: string) =>
  new Request("http://shop/", { headers: header === undefined ? {} : { [FENCING_TOKEN]: header } });

/** What fencedFetch would send. */
async function headerOf(name: string, token: bigint): Promise<string> {
  let sent = "";
  const keep: typeof fetch = async (_, init) => {
    sent = new Headers(init?.headers).get(FENCING_TOKEN) ?? "";
    return new Response();
  };
  await fencedFetch({ name, token }, keep)("http://shop/");
  return sent;
}

const requestOf = async (name: string, token: bigint) => asking(await headerOf(name, token));

describe("the header", () => {
  test("is an item of RFC 9651, in ASCII, and comes out as it went in", async () => {
    expect(await headerOf("stock:lamp", TOKEN)).toBe('%"stock:lamp";token="1837880256828234752"');
    expect(await headerOf(NAME, 5n)).toBe('%"stock:l%c3%a1mp %2250%25%22 %f0%9f%92%a1";token="5"');
    expect(fencingToken(await requestOf(NAME, TOKEN))).toEqual({ name: NAME, token: TOKEN });
    expect(fencingToken({ headers: { "fencing-token": await headerOf(NAME, 1n) } })).toEqual({
      name: NAME,
      token: 1n,
    });
  });

  test.each([
    ['"stock:lamp";token="5"', "a plain string"],
    ['%"stock:lamp"; token="5"', "blanks"],
    ['%"stock:lamp";v=1;token="5";by=ann;at=@1659578233;raw=:aGk=:;ok;no=?0', "other parameters"],
    ['%"stock:lamp";token="4";token="5"', "the last one counts"],
  ])("%s is one: %s", (header) => {
    expect(fencingToken(asking(header))).toEqual({ name: "stock:lamp", token: 5n });
  });

  test.each([
    "",
    "stock:lamp",
    '%"stock:lamp"',
    '%"stock:lamp";token=5',
    '%"stock:lamp";token',
    '%"stock:lamp";token="-5"',
    '%"stock:lamp";token="5',
    '%"stock:lamp" ;token="5"',
    '%"stock:lamp";token="5", %"stock:lamp";token="6"',
    '%"stock%2";token="5"',
    '%"stock%ff";token="5"',
    '%"stock%0a";token="5"',
    '%"";token="5"',
    `%"${"x".repeat(256)}";token="5"`,
    '%"a";token="9223372036854775808"',
  ])("%s cannot be read", (header) => {
    expect(() => fencingToken(asking(header))).toThrow(expect.objectContaining({ code: "invalid-token" }));
  });

  test("a long one that is wrong at its end is judged at once", () => {
    const started = performance.now();
    for (const part of [";a", ";a=b", ";token=%", "; ", '\\"'])
      expect(() => fencingToken(asking(`%"a"${part.repeat(8_000)},`))).toThrow(/cannot be read/);
    expect(performance.now() - started).toBeLessThan(1_000);
  });

  test("that of another lock than the one that is asked for is refused", async () => {
    const chair = await requestOf("stock:chair", 5n);
    expect(() => fencingToken(chair, { lock: "stock:lamp" })).toThrow(
      expect.objectContaining({ code: "invalid-token", lock: "stock:lamp" }),
    );
    expect(fencingToken(chair, { lock: ["stock", "chair"] }).token).toBe(5n);
    expect(() => fencingToken(chair, { look: "stock:lamp" } as object)).toThrow(/there is no option "look"/);
  });

  test("what is no request is refused as such", () => {
    for (const request of [undefined, {}, { headers: "a" }]) {
      expect(() => fencingToken(request as never)).toThrow(
        expect.objectContaining({ code: "invalid-option" }),
      );
    }
    expect(() => fencingToken({ headers: { "fencing-token": 5 } } as never)).toThrow(/cannot be read/);
  });

  test("none at all is an error of its own", () => {
    expect(() => fencingToken(asking())).toThrow(expect.objectContaining({ code: "missing-token" }));
    expect(() => fencingToken({ headers: {} })).toThrow(expect.objectContaining({ code: "missing-token" }));
  });
});

async function problemOf(refused: Promise<unknown>) {
  const problem = fenceProblem(await refused.catch((error: unknown) => error));
  if (problem === undefined) throw new Error("it was not refused");
  expect(problem.headers).toEqual({ "content-type": "application/problem+json" });
  return { ...(JSON.parse(problem.body) as Record<string, unknown>), answered: problem.status };
}

describe("requests", () => {
  test("are let in until a newer token was seen; then the answer is 412", async () => {
    const fenced = httpFence();
    const write = async (token: bigint) => fenced(await requestOf("stock:lamp", token), (sender) => sender);
    expect(await write(5n)).toEqual({ name: "stock:lamp", token: 5n });
    await write(5n);
    await write(6n);
    expect(await problemOf(write(5n))).toMatchObject({
      type: "urn:locktender:stale-token",
      status: 412,
      answered: 412,
      name: "stock:lamp",
      resource: "stock:lamp",
      token: "5",
      highest: "6",
    });
  });

  test("without a header get 428, with one that cannot be read or is another lock's 400", async () => {
    const fenced = httpFence();
    const never = () => expect.unreachable();
    expect(await problemOf(fenced(asking(), never))).toMatchObject({
      status: 428,
      type: "urn:locktender:missing-token",
    });
    expect(await problemOf(fenced(asking("?"), never))).toMatchObject({ status: 400, answered: 400 });
    const other = fenced(await requestOf("stock:chair", 5n), { lock: ["stock", "lamp"] }, never);
    expect(await problemOf(other)).toMatchObject({
      status: 400,
      detail: expect.stringContaining('"stock:lamp"'),
    });
  });

  test("may write to something that has another name", async () => {
    const fenced = httpFence();
    await fenced(await requestOf("stock:lamp", 5n), { resource: "shelf" }, () => {});
    await fenced(await requestOf("stock:lamp", 4n), () => {});
    const late = fenced(
      await requestOf("stock:lamp", 4n),
      { lock: "stock:lamp", resource: "shelf" },
      () => {},
    );
    await expect(late).rejects.toMatchObject({ resource: "shelf", highest: 5n });
  });

  test("without a handler are an error, and do not count as seen", async () => {
    const fenced = httpFence();
    for (const rest of [[], [{ lock: "a" }], [{ lock: "a" }, undefined]]) {
      const refused = fenced(await requestOf("a", 5n), ...(rest as [never]));
      await expect(refused).rejects.toMatchObject({ code: "invalid-option" });
    }
    await fenced(await requestOf("a", 4n), () => {});
  });

  test("other errors are none of ours to answer", async () => {
    const failing = httpFence()(await requestOf("a", 1n), () => Promise.reject(new Error("mine")));
    await expect(failing).rejects.toThrow("mine");
    expect(fenceProblem(new Error("mine"))).toBeUndefined();
    expect(fenceProblem(undefined)).toBeUndefined();
  });

  test("a newer one begins when older ones that were let in have ended, also those that failed", async () => {
    const fenced = httpFence();
    const log: string[] = [];
    const handle = async (token: bigint, ms: number, fail = false) =>
      fenced(await requestOf("a", token), async () => {
        log.push(`${token} begins`);
        await sleep(ms);
        log.push(`${token} ends`);
        if (fail) throw new Error("it failed");
      });
    const older = [handle(1n, 60), handle(1n, 30, true).catch(() => {})];
    await sleep(10);
    const newer = handle(2n, 1);
    await sleep(10);
    await expect(handle(1n, 1)).rejects.toMatchObject({ code: "stale-token" });
    await Promise.all([...older, newer]);
    expect(log).toEqual(["1 begins", "1 begins", "1 ends", "1 ends", "2 begins", "2 ends"]);
  });
});

const client = new Redis((await shared("redis")).url);
const pool = new pg.Pool({ connectionString: await freshDatabaseWith("postgres", fenceTable("postgres")) });
afterAll(async () => {
  client.disconnect();
  await pool.end();
});

const STORES: readonly (readonly [string, () => FenceStore])[] = [
  ["memory", () => memoryStore()],
  ["Redis", () => redisStore(client)],
  [
    "a database",
    () => databaseStore({ dialect: "postgres", query: async (sql) => (await pool.query(sql)).rows }),
  ],
];

describe.each(STORES)("a store in %s", (_, open) => {
  test("says which token is the newest, of each resource, however many ask at once", async () => {
    const [one, other] = [randomUUID(), randomUUID()];
    const store = open();
    expect(await store.raise(one, TOKEN)).toBe(TOKEN);
    expect(await store.raise(one, TOKEN - 1n)).toBe(TOKEN);
    expect(await store.raise(one, TOKEN + 1n)).toBe(TOKEN + 1n);
    const tokens = [5n, 3n, 9n, 1n, 7n];
    const seen = await Promise.all(tokens.map((token) => store.raise(other, token)));
    for (const [index, token] of tokens.entries()) expect(seen[index]).toBeGreaterThanOrEqual(token);
    expect(await store.raise(other, 0n)).toBe(9n);
  });

  test("holds a fence", async () => {
    const name = randomUUID();
    const fenced = httpFence(open());
    await fenced(await requestOf(name, 2n), () => {});
    await expect(fenced(await requestOf(name, 1n), () => {})).rejects.toMatchObject({ highest: 2n });
  });
});

test("a store in memory forgets a resource that has not been written to for long", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const store = memoryStore({ retention: "30d" });
  const DAYS = 86_400_000;
  await store.raise("a", 5n);
  vi.advanceTimersByTime(20 * DAYS);
  await store.raise("b", 5n);
  vi.advanceTimersByTime(20 * DAYS);
  expect(await store.raise("c", 1n)).toBe(1n);
  expect(await store.raise("b", 1n)).toBe(5n);
  expect(await store.raise("a", 1n)).toBe(1n);
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

describe("fencedFetch", () => {
  test("sends the token beside what was asked for, and rejects when it is stale", async () => {
    const fenced = httpFence();
    const url = await serve(async (request, response) => {
      try {
        const { token } = await fenced(request, (sender) => sender);
        response.end(`${request.method} ${request.headers["x-own"]} ${token}`);
      } catch (error) {
        const problem = fenceProblem(error);
        response.writeHead(problem?.status ?? 500, problem?.headers).end(problem?.body);
      }
    });
    const init = { method: "PUT", headers: { "x-own": "yes" } };
    const newer = fencedFetch({ name: NAME, token: 6n });
    expect(await (await newer(url, init)).text()).toBe("PUT yes 6");
    expect(await (await newer(new Request(url, init))).text()).toBe("PUT yes 6");
    const late = fencedFetch({ name: NAME, token: "5" })(new URL(url), init);
    await expect(late).rejects.toMatchObject({ code: "stale-token", lock: NAME, token: 5n, highest: 6n });
  });

  test("leaves other answers alone, also those that look like ours", async () => {
    for (const answer of [
      new Response("no", { status: 412 }),
      new Response("{", { status: 412, headers: { "content-type": "application/problem+json" } }),
      new Response('{"type":"about:blank"}', {
        status: 412,
        headers: { "content-type": "application/problem+json" },
      }),
    ]) {
      const fetched = await fencedFetch({ name: "a", token: 1n }, async () => answer)("http://shop/");
      expect(await fetched.text()).not.toBe("");
    }
  });

  test("ends when the lease is lost, or when the caller says so, and does not begin without a lease", async () => {
    await using locks = await connect("memory:");
    const url = await serve(() => {});
    const lost = await locks.mutex("a").acquire();
    const pending = fencedFetch(lost)(url);
    pending.catch(() => {});
    await locks.forceRelease("a", { reason: "a test" });
    await expect(pending).rejects.toMatchObject({ code: "lost", loss: "forced" });
    await expect(fencedFetch(lost)(url)).rejects.toMatchObject({ code: "lost" });
    const held = await locks.mutex("b").acquire();
    const reason = new Error("the caller has had enough");
    await expect(fencedFetch(held)(url, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const request = new Request(url, { signal: AbortSignal.abort(reason) });
    await expect(fencedFetch(held)(request)).rejects.toBe(reason);
  });
});
