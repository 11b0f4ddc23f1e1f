import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ConnectOptions, connect, createLocks, type Locks } from "locktender";
import { redis } from "locktender/redis";
import { describe, expect, onTestFinished, test } from "vitest";
import { shared } from "../servers/shared.js";

const invalid = (message: RegExp) => ({
  code: "invalid-option",
  message: expect.stringMatching(message),
});

/** Locks that are closed with the test. */
async function opened(...args: Parameters<typeof connect>): Promise<Locks> {
  const locks = await connect(...args);
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

function withVariable(url: string | undefined): void {
  const before = process.env.LOCKTENDER_URL;
  const set = (value: string | undefined) => {
    if (value === undefined) delete process.env.LOCKTENDER_URL;
    else process.env.LOCKTENDER_URL = value;
  };
  set(url);
  onTestFinished(() => set(before));
}

describe("without a URL", () => {
  test("it is the one in LOCKTENDER_URL", async () => {
    withVariable("memory:from-the-environment");
    const [first, second] = [await opened(), await opened(undefined, { ttl: "5s" })];
    await first.mutex("a").acquire();
    expect(await second.mutex("a").tryAcquire()).toBeNull();
    const other = await opened("memory:");
    expect(await other.mutex("a").tryAcquire()).not.toBeNull();
  });

  test.each([undefined, ""])("none is invented, with LOCKTENDER_URL %j", async (url) => {
    withVariable(url);
    await expect(connect()).rejects.toMatchObject(invalid(/LOCKTENDER_URL/));
  });

  test("an empty URL is not the same: the variable that it comes from is not set", async () => {
    withVariable("memory:");
    await expect(connect("")).rejects.toMatchObject(invalid(/empty/));
    await expect(connect({ ttl: "5s" } as never)).rejects.toMatchObject(invalid(/undefined/));
  });
});

describe("what is given as the URL", () => {
  test("may be an object of the class URL, have white space around it, and a scheme in capitals", async () => {
    const { url } = await shared("redis");
    const postgresUrl = (await shared("postgres")).url;
    for (const given of [
      new URL(url),
      `\n ${url}\r\n`,
      url.replace("redis:", "REDIS:"),
      postgresUrl.replace("postgres:", "Postgres:"),
      new URL("memory:as-an-object"),
      "MEMORY:as-an-object",
    ]) {
      const locks = await opened(given, { ttl: "5s" });
      expect(await locks.mutex("given").run((lease) => lease.held)).toBe(true);
    }
    const [first, second] = [await opened(new URL("memory:same")), await opened("Memory:same ")];
    await first.mutex("a").acquire();
    expect(await second.mutex("a").tryAcquire()).toBeNull();
    withVariable(`${url}\n`);
    await opened();
    expect(createLocks(redis({ url: ` ${url}\n` })).guarantees.engine).toBe("redis");
  });

  test.each([
    ["not a url", "unsupported"],
    ["rediss+magic://h", "unsupported"],
    ["redis://h?sslmod=x", "invalid-option"],
    ["redis://127.0.0.1:1", "backend"],
  ])("LOCKTENDER_URL=%s: the error says where it comes from", async (url, code) => {
    withVariable(url);
    const from = expect.stringMatching(
      /[^.]\. The URL is that of the environment variable LOCKTENDER_URL\.$/,
    );
    await expect(connect()).rejects.toMatchObject({ code, message: from });
    await expect(connect(url)).rejects.toMatchObject({
      code,
      message: expect.not.stringContaining("LOCKTENDER_URL"),
    });
    await expect(connect(undefined, { ttl: 0 })).rejects.toMatchObject({ code: expect.any(String) });
  });

  test("an option that is wrong has nothing to do with LOCKTENDER_URL", async () => {
    withVariable("memory:");
    for (const options of [{ ttl: 0 }, { tll: 5 }, { engine: { timeout: 5 } }]) {
      await expect(connect(undefined, options as never)).rejects.toMatchObject({
        code: "invalid-option",
        message: expect.not.stringContaining("LOCKTENDER_URL"),
      });
    }
  });
});

describe("engine", () => {
  test("takes the options of the engine that the URL names", async () => {
    const { url } = await shared("redis");
    const locks = await opened(url, { engine: { replicas: 1, timeout: "200ms" } });
    await expect(locks.mutex("a").acquire({ wait: 0 })).rejects.toThrow(/only 0 of 1 replicas/);
    const postgres = await opened((await shared("postgres")).url, { engine: { listen: false } });
    expect(postgres.guarantees.caveats.join()).toMatch(/No connection listens/);
    const creator = connect((await shared("zookeeper")).url, { engine: { acl: "creator" } });
    await expect(creator).rejects.toMatchObject(invalid(/acl/));
    const late = connect((await shared("etcd")).url, { engine: { timeout: "1h" } });
    await expect(late).rejects.toMatchObject(invalid(/timeout/));
  });

  test("refuses what the engine does not know, and what the URL says", async () => {
    const { url } = await shared("redis");
    await expect(connect(url, { engine: { evictoin: "accept" } as never })).rejects.toMatchObject(
      invalid(/"evictoin".*Known are.*eviction/),
    );
    await expect(connect(url, { engine: { listen: false } as never })).rejects.toMatchObject(
      invalid(/"listen"/),
    );
    await expect(connect(url, { engine: { client: {} } as never })).rejects.toMatchObject(
      invalid(/"client".*createLocks/),
    );
    await expect(connect(url, { engine: { prefix: "x" } as never })).rejects.toMatchObject(
      invalid(/connect\(url, \{ prefix \}\)/),
    );
    await expect(connect(`${url}?timeout=1s`, { engine: { timeout: "1s" } })).rejects.toMatchObject(
      invalid(/timeout: is given as an option and in the URL/),
    );
    await expect(connect("memory:", { engine: { timeout: "1s" } as never })).rejects.toMatchObject(
      invalid(/memory: there is no option "timeout"/),
    );
    for (const engine of [null, 5, "x"]) {
      await expect(connect(url, { engine: engine as never })).rejects.toMatchObject({
        code: "invalid-option",
      });
    }
  });

  test("exactly what it takes is listed, for every engine", async () => {
    const LISTED: Readonly<Record<string, string>> = {
      "redis://h": "library, tls, retention, eviction, replicas, timeout",
      "redlock://a,b,c": "library, tls, retention, eviction, maxTtl, fresh, timeout",
      "etcd://h": "tls, timeout",
      "zookeeper://h": "tls, timeout, acl",
      "postgres://h": "tls, schema, connections, retention, timeout, connectTimeout, listen",
      "mysql://h/db": "tls, schema, connections, retention, timeout, connectTimeout",
      "sqlite:": "library, retention, busyTimeout",
    };
    for (const [url, names] of Object.entries(LISTED)) {
      const engine = { never: 1 } as never;
      await expect(connect(url, { engine })).rejects.toMatchObject(
        invalid(new RegExp(`Known are ${names}\\.$`)),
      );
      for (const name of names.split(", ")) {
        await expect(connect(url, { [name]: "1s" } as never)).rejects.toMatchObject(
          invalid(
            new RegExp(
              `${name} is an option of the engine: connect\\(url, \\{ engine: \\{ ${name}: … \\} \\}\\)`,
            ),
          ),
        );
      }
    }
    await expect(connect("memory:", { engine: { x: 1 } as never })).rejects.toMatchObject(
      invalid(/there is no option "x"\. It takes none\.$/),
    );
    await expect(connect("redis://h", { tmeout: "1s" } as never)).rejects.toMatchObject(
      invalid(/^connect: there is no option "tmeout"\. Known are ttl, .*engine\.$/),
    );
  });

  test("a file and memory have parameters, too, or none", async () => {
    const folder = await mkdtemp(join(tmpdir(), "locktender-connect-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, "locks.db");
    await opened(`sqlite:${file}?busyTimeout=500ms&retention=60000`);
    expect((await stat(file)).isFile()).toBe(true);
    await opened(`sqlite:${file}`, { engine: { busyTimeout: "500ms" } });
    await expect(connect(`sqlite:${file}?mode=rw`)).rejects.toMatchObject(invalid(/"mode".*busyTimeout/));
    await expect(connect("memory:x?timeout=1s")).rejects.toMatchObject(
      invalid(/^memory: the URL has a parameter "timeout", but it takes no parameters\.$/),
    );
  });

  test("its type is that of the URL's scheme, where the compiler knows it", () => {
    const port = 6379 as number;
    const calls = () => [
      connect("redis://h", { engine: { eviction: "accept", tls: { ca: "" }, timeout: "1s" } }),
      connect(`rediss://h:${port}`, { engine: { replicas: 1 } }),
      connect("postgres://h/db", { engine: { listen: false, schema: "verify", connectTimeout: "15s" } }),
      connect("redlock://a,b,c", { engine: { fresh: true } }),
      connect("sqlite:", { engine: { busyTimeout: "1s" } }),
      connect(process.env.DATABASE_URL, { engine: { timeout: "1s", listen: false } }),
      connect(new URL("redis://h"), { ttl: "5s", engine: { timeout: "1s" } }),
      connect(process.env.DATABASE_URL, { prefix: undefined, engine: undefined, ttl: undefined }),
      // @ts-expect-error Of another engine.
      connect("redis://h", { engine: { listen: false } }),
      // @ts-expect-error Of another engine.
      connect(`rediss://h:${port}`, { engine: { schema: "verify" } }),
      // @ts-expect-error No engine has it.
      connect(process.env.DATABASE_URL, { engine: { evictoin: "accept" } }),
      // @ts-expect-error Memory has none.
      connect("memory:", { engine: { timeout: "1s" } }),
      // @ts-expect-error It stands beside.
      connect("redis://h", { engine: { prefix: "x" } }),
    ];
    const kept: ConnectOptions<"mysql:"> = { engine: { schema: "verify" } };
    expect([calls, kept]).toHaveLength(2);
  });
});
