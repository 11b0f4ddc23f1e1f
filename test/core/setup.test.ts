import { mkdtemp, rm, stat } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createLocks, isLockError, type LocksOptions } from "locktender";
import { memory } from "locktender/memory";
import { redis } from "locktender/redis";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Backend, Traits } from "#lib/core/backend.js";
import { shared } from "../servers/shared.js";

/** Memory that promises less. */
function promising(traits: Partial<Traits>): Backend {
  const backend = memory();
  return new Proxy(backend, {
    get(target, key) {
      if (key === "traits") return { ...target.traits, ...traits };
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

function codeOf(work: () => unknown): string {
  try {
    work();
    return "fine";
  } catch (error) {
    return isLockError(error) ? error.code : `not ours: ${String(error)}`;
  }
}

const NEVER: readonly object[] = [
  { ttl: 0 },
  { ttl: 19 },
  { ttl: "2d" },
  { ttl: Infinity },
  { wait: -1 },
  { wait: "soon" },
  { wait: Number.NaN },
  { owner: { service: 5 } },
  { owner: { service: "x".repeat(201) } },
  { owner: { pid: 5 } },
  { owner: "me" },
  { require: { speed: true } },
  { require: "fencing" },
  { onEvent: "log" },
  { onEvent: {} },
  { closeOnSignals: false },
  { closeOnSignals: { drain: "soon" } },
  { closeOnSignals: { wait: 5 } },
  { closeOnSignals: [] },
  { closeOnSignals: ["SIGHUP"] },
  { tll: "5s" },
  { prefix: "x" },
];

describe("createLocks", () => {
  test("refuses invalid options, or that it does not know, and names them", () => {
    for (const options of NEVER) {
      const made = () => createLocks(memory(), options as LocksOptions);
      expect(codeOf(made), JSON.stringify(options)).toBe("invalid-option");
    }
    for (const options of [null, 5, "ttl=5s", () => {}]) {
      expect(
        codeOf(() => createLocks(memory(), options as never)),
        String(options),
      ).toBe("invalid-option");
    }
    expect(() => createLocks(memory(), { tll: "5s" } as never)).toThrow(/"tll".*ttl/s);
  });

  test("refuses what is not an engine", () => {
    for (const backend of [undefined, null, {}, "redis://127.0.0.1", { traits: {} }]) {
      expect(
        codeOf(() => createLocks(backend as never)),
        String(backend),
      ).toBe("invalid-option");
    }
  });

  test("refuses an engine that cannot promise what is required, and takes one that can", () => {
    for (const trait of ["fencing", "queueing"] as const) {
      const weak = promising({ [trait]: false });
      expect(codeOf(() => createLocks(weak, { require: { [trait]: true } }))).toBe("unsupported");
      expect(() => createLocks(weak, { require: { [trait]: true } })).toThrow(new RegExp(trait));
      expect(codeOf(() => createLocks(weak))).toBe("fine");
      expect(codeOf(() => createLocks(memory(), { require: { [trait]: true } }))).toBe("fine");
    }
  });

  test("tells what the engine promises, and what it cannot, before anything is asked", () => {
    const [inProcess, onNetwork] = [memory(), redis({ url: "redis://127.0.0.1:1" })];
    expect(createLocks(inProcess).guarantees).toMatchObject({
      engine: "memory",
      reach: "process",
      fencing: true,
    });
    const { guarantees } = createLocks(onNetwork);
    expect(guarantees).toMatchObject({ engine: "redis", reach: "network", fencing: true, queueing: true });
    expect(guarantees.caveats.join(" ")).toMatch(/failover/);
    expect(guarantees.expiryGranularityMs).toBeGreaterThan(0);
  });

  test("uses the given ttl, wait and owner for every lock", async () => {
    const owner = { service: "shop", instance: "shop-1", version: "1.2.3" };
    const locks = createLocks(memory(), { ttl: "5s", wait: 30, owner });
    const lease = await locks.mutex("x").acquire();
    expect(lease.remainingMs()).toBeLessThan(5_000);
    const [holder] = (await locks.inspect("x")).holders;
    expect(holder?.owner).toEqual({ ...owner, host: hostname(), pid: process.pid });
    const startedAt = performance.now();
    await expect(locks.mutex("x").acquire()).rejects.toMatchObject({ code: "timeout" });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  test("a lock refuses invalid options, when it is made", async () => {
    const locks = createLocks(memory());
    for (const options of [
      { reentrant: 1 },
      { fair: "yes" },
      { maxWaiters: -1 },
      { maxWaiter: 5 },
      null,
      5,
    ]) {
      expect(
        codeOf(() => locks.mutex("x", options as never)),
        JSON.stringify(options),
      ).toBe("invalid-option");
    }
    await expect(Promise.resolve().then(() => locks.close({ drain: -1 }))).rejects.toMatchObject({
      code: "invalid-option",
    });
    expect(codeOf(() => locks.scope("" as never))).toBe("invalid-name");
  });
});

test.each([
  ["owner", "me"],
  ["owner", 5],
  ["require", "fencing"],
])("%s: %j is told what it takes, with an example that works", (option, value) => {
  const made = () => createLocks(memory(), { [option]: value } as never);
  expect(made).toThrow(
    new RegExp(`^${option}: must be an object.*, as in \\{ ${option}: \\{ .* \\} \\}\\.$`),
  );
  let message = "";
  try {
    made();
  } catch (error) {
    message = String(error);
  }
  const [, example = ""] = /as in (.*)\.$/.exec(message) ?? [];
  expect(codeOf(() => createLocks(memory(), new Function(`return ${example}`)()))).toBe("fine");
});

describe("connect", () => {
  test("refuses the same options, before or after it connects, and leaves no connection behind", async () => {
    const { url } = await shared("redis");
    for (const options of NEVER.filter((one) => !("prefix" in one))) {
      const asked = connect("memory:", options as LocksOptions);
      await expect(asked, JSON.stringify(options)).rejects.toMatchObject({ code: "invalid-option" });
    }
    await expect(connect(url, { ttl: 0 })).rejects.toMatchObject({ code: "invalid-option" });
    await expect(connect(url, { prefix: "a b" })).rejects.toMatchObject({ code: "invalid-option" });
    await expect(connect("memory:", { prefix: "x" })).rejects.toMatchObject({ code: "invalid-option" });
    for (const options of [null, 5, "x"]) {
      await expect(connect("memory:", options as never)).rejects.toMatchObject({ code: "invalid-option" });
    }
  });

  test("two slashes where no host can be are refused, and the error says what to write", async () => {
    for (const url of ["memory://", "memory://orders", "memory:///orders"]) {
      const error = await connect(url).catch((thrown: unknown) => thrown);
      expect(error, url).toMatchObject({ code: "invalid-option" });
      expect(String(error)).toContain("memory:name");
    }
    for (const url of ["sqlite://", "sqlite://locks.db", "sqlite://folder/locks.db"]) {
      const error = await connect(url).catch((thrown: unknown) => thrown);
      expect(error, url).toMatchObject({ code: "invalid-option" });
      expect(String(error)).toContain("sqlite:path/locks.db");
    }
  });

  test("a file of SQLite is named by a path, also in full", async () => {
    const folder = await mkdtemp(join(tmpdir(), "locktender-setup-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    for (const start of ["sqlite:", "sqlite://"]) {
      const file = join(folder, `${start.length}.db`);
      await (await connect(`${start}${file}`)).close();
      expect((await stat(file)).isFile()).toBe(true);
    }
  });

  test("memory: with a name is shared within the process, without one it stands alone", async () => {
    const name = `memory:setup-${process.pid}`;
    const [one, same, alone] = await Promise.all([connect(name), connect(name), connect("memory:")]);
    await one.mutex("x").acquire();
    expect(await same.mutex("x").tryAcquire()).toBeNull();
    expect(await alone.mutex("x").tryAcquire()).not.toBeNull();
  });
});

test("the engine refuses invalid options, when it is made", () => {
  const url = "redis://127.0.0.1:1";
  const never: object[] = [
    {},
    { url, client: { evalSha() {} } },
    { client: 5 },
    { client: {} },
    { client: null },
    { url, library: "redis-om" },
    { url, prefix: "" },
    { url, prefix: "a{b}" },
    { url, prefix: "a b" },
    { url, prefix: "x".repeat(101) },
    { url, replicas: -1 },
    { url, replicas: 1.5 },
    { url, retention: "never" },
    { url, timeout: 0 },
    { url, timeout: "5m" },
    { url, eviction: "allow" },
    { url, db: 3 },
    { url: 5 },
  ];
  for (const options of never)
    expect(
      codeOf(() => redis(options)),
      JSON.stringify(options),
    ).toBe("invalid-option");
  expect(codeOf(() => redis(null as never))).toBe("invalid-option");
});
