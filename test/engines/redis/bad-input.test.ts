import { inspect } from "node:util";
import fc from "fast-check";
import { connect, isLockError } from "locktender";
import { redis } from "locktender/redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { compiled, run } from "../../core/program.js";
import { askRedis, type RedisSingle, startRedisSingle } from "./server.js";
import { open } from "./tools.js";

const SECRET = "s3cr3t";

async function refusal(url: unknown): Promise<{ code: string; shown: string }> {
  try {
    const locks = await connect(url as string);
    await locks.close();
    return { code: "let in", shown: "" };
  } catch (error) {
    if (!isLockError(error)) return { code: "not ours", shown: inspect(error) };
    return { code: error.code, shown: `${inspect(error, { depth: 9 })} ${error.stack}` };
  }
}

describe("an invalid URL", () => {
  const malformed = [
    "redis:",
    "redis:/",
    "redis:127.0.0.1",
    `redis:///${SECRET}`,
    `redis://:${SECRET}@`.concat(":6379"),
    `redis://:${SECRET}@host:0`,
    `redis://:${SECRET}@host:65536`,
    `redis://:${SECRET}@host:port`,
    `redis://:${SECRET}@host:6379:6379`,
    `redis://:${SECRET}@host,other`,
    `redis://:${SECRET}@host/db`,
    `redis://:${SECRET}@host/-1`,
    `redis://:${SECRET}@host/1.5`,
    `redis://:${SECRET}@host?database=1`,
    `redis://user:${SECRET}@`,
    `redis://user:${SECRET}@/0`,
    `redis://user:pass?${SECRET}@host`,
    `redis://user:pass#${SECRET}@host`,
    `redis://:${SECRET}@host#1`,
    `redis://:${SECRET}%@host`,
    `redis://:%E0%A4%A${SECRET}@host`,
    `redis://:a/${SECRET}@host`,
    `redis://:a@${SECRET}@host`,
    `redis://user:1/${SECRET}@host`,
    `redis://[::1:${SECRET}`,
    `redis://::1/${SECRET}`,
    `redis+sentinel://:${SECRET}@h1,h2`,
    `redis+sentinel://:${SECRET}@h1,h2/`,
    `redis+sentinel://:a@${SECRET}@h1,h2/main`,
    `redis+sentinel://user:1/${SECRET}@h1,h2/main`,
    `redis+cluster://:${SECRET}@h1,,h2`,
    `redis+cluster://:${SECRET}@h1,h2/3`,
    `rediss+cluster://:${SECRET}@h 1`,
  ];

  test("is an invalid option, and its credentials are not repeated", async () => {
    const outcomes = await Promise.all(malformed.map(refusal));
    for (const [index, { code, shown }] of outcomes.entries()) {
      expect(shown, malformed[index]).not.toContain(SECRET);
      expect(code, malformed[index]).toBe("invalid-option");
    }
  });

  test("a password that is not encoded is not taken for a path, and the error says how to write it", async () => {
    const rests = [`user:48151/${SECRET}@host`, `user:48151/${SECRET}@h1,h2/main`, `:48151/0/${SECRET}@host`];
    const urls = ["redis", "redis+sentinel", "redis+cluster"].flatMap((kind) =>
      rests.map((rest) => `${kind}://${rest}`),
    );
    for (const url of urls) {
      const { code, shown } = await refusal(url);
      expect(code, url).toBe("invalid-option");
      expect(shown, url).not.toMatch(/s3cr3t|48151/);
      expect(shown, url).toMatch(/%2F.*%40/);
    }
  });

  test("is unsupported if there is no such engine, whatever its name is", async () => {
    for (const url of [
      "http://x",
      "redi://x",
      "redlock+x://h",
      "postgrex:",
      "constructor:x",
      "__proto__:",
      "+:",
    ]) {
      const { code, shown } = await refusal(`${url}?password=${SECRET}`);
      expect(code, url).toBe("unsupported");
      expect(shown).not.toContain(SECRET);
    }
  });

  test("the same holds for a URL that is given to the engine itself", () => {
    for (const url of ["constructor://127.0.0.1:1", "http://127.0.0.1", "", "redis", "//127.0.0.1"]) {
      expect(() => redis({ url }), url).toThrow(expect.objectContaining({ code: "invalid-option" }));
    }
  });

  test("whatever follows the scheme, the answer is a typed error and never anything else", async () => {
    const junk = fc.string({ unit: fc.constantFrom(..."@:/,[]%#? ab1."), maxLength: 14 });
    const scheme = fc.constantFrom("redis", "redis+sentinel", "redis+cluster", "rediss");
    await fc.assert(
      fc.property(scheme, junk, (start, rest) => {
        try {
          redis({ url: `${start}://${rest}` });
        } catch (error) {
          expect(isLockError(error, "invalid-option"), inspect(error)).toBe(true);
        }
      }),
      { numRuns: 3_000 },
    );
    for (const url of [undefined, null, 5, {}, [], "", " ", "redis", Symbol("x")]) {
      expect(["invalid-option", "unsupported"], inspect(url)).toContain((await refusal(url)).code);
    }
  });

  test("a password may contain everything, if it is percent-encoded", async () => {
    const server = await startRedisSingle();
    try {
      const password = "p@ss:w/rd%?#{}[]é 🔒";
      await askRedis(server.node.port, "CONFIG", "SET", "requirepass", password);
      const locks = await connect(`redis://:${encodeURIComponent(password)}@127.0.0.1:${server.node.port}`);
      expect(await locks.mutex("x").tryAcquire()).not.toBeNull();
      await locks.close();
    } finally {
      await server.stop();
    }
  });
});

describe("a library that is not installed", () => {
  const hide = (...names: string[]) => {
    const hook = `export async function resolve(name, context, next) {
      if (${JSON.stringify(names)}.includes(name)) throw Object.assign(new Error("Cannot find package '" + name + "' imported from here"), { code: "ERR_MODULE_NOT_FOUND" });
      return next(name, context);
    }`;
    const source = `import { register } from "node:module"; register("data:text/javascript," + ${JSON.stringify(encodeURIComponent(hook))});`;
    return { nodeArgs: ["--import", `data:text/javascript,${encodeURIComponent(source)}`] };
  };
  const tell = `.then(() => "let in", (error) => error.code + ": " + error.message)`;

  test("is unsupported, and the error names what to install", async () => {
    const { out } = await run(
      `console.log(await connect("redis://127.0.0.1:1")${tell});`,
      hide("ioredis", "redis", "iovalkey"),
    );
    expect(out).toMatch(/^unsupported: .*npm install ioredis, or npm install redis/);
    const asked = `const backend = redis({ url: "redis://127.0.0.1:1", library: "redis" });
      console.log(await backend.release({ name: "x", id: "y" })${tell});`;
    expect((await run(asked, hide("redis"))).out).toMatch(/^unsupported: .*npm install redis/);
  });

  test("does not matter to a program that uses another engine, and the other library takes its place", async () => {
    const used = `const locks = await connect("memory:"); console.log(await locks.mutex("x").run(() => "ran"));`;
    expect((await run(used, hide("ioredis", "redis", "libsql", "better-sqlite3"))).out).toBe("ran\n");
    const other = `console.log(await connect("redis://127.0.0.1:1")${tell});`;
    expect((await run(other, hide("ioredis"))).out).toMatch(/^backend: .*ECONNREFUSED/);
    expect(compiled("index.js")).toMatch(/^file:/);
  });
});

describe("a server that may evict locks", () => {
  let server: RedisSingle;
  beforeAll(async () => {
    server = await startRedisSingle();
    await askRedis(server.node.port, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    await askRedis(server.node.port, "CONFIG", "SET", "maxmemory", "100mb");
  });
  afterAll(() => server.stop());

  test("is refused, with the way out in the error; a caller that accepts it is let in", async () => {
    const { code, shown } = await refusal(server.url);
    expect(code).toBe("unsupported");
    expect(shown).toMatch(/allkeys-lru.*maxmemory-policy noeviction.*eviction: "accept"/s);
    for (const library of ["ioredis", "redis"] as const) {
      const locks = open({ url: server.url, library });
      await expect(locks.mutex("x").tryAcquire(), library).rejects.toMatchObject({ code: "unsupported" });
      const accepting = open({ url: server.url, library, eviction: "accept", prefix: library });
      expect(await accepting.mutex("x").tryAcquire(), library).not.toBeNull();
    }
  });
});
