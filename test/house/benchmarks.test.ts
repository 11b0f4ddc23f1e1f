import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const load = (file: string): Promise<unknown> => import(new URL(`../../bench/${file}`, import.meta.url).href);

/** The columns of a contender: a value for each round. */
type Columns = Readonly<Record<string, readonly number[]>>;

interface Run {
  readonly date: string;
  readonly command: string;
  readonly quick: boolean;
  readonly settings: { readonly rounds: number };
  readonly machine: object;
  readonly versions: Readonly<Record<string, unknown>>;
  readonly workloads: readonly {
    readonly id: string;
    readonly state: string;
    readonly contenders: Readonly<Record<string, Columns>>;
  }[];
}

interface Bar {
  readonly id: string;
  readonly what: string;
  readonly verdict: string;
  readonly value?: number;
  readonly beside?: string;
}

const { generate } = (await load("report/publish.mjs")) as { generate(): Map<string, string> };
const { newestRun } = (await load("report/run.mjs")) as { newestRun(): Run };
const { BARS, barsOf } = (await load("report/bars.mjs")) as {
  BARS: readonly { readonly workload: string }[];
  barsOf(run: object): Bar[];
};
const { startGroup, nowMs } = (await load("contenders/group.mjs")) as {
  startGroup(spec: object): Promise<{
    ask(what: string, options: object): Promise<{ workers: [number, number?, number?][][] }[]>;
    stop(): Promise<void>;
  }>;
  nowMs(): number;
};
const { median, percentilePerWorker, ratioOf } = (await load("lib/stats.mjs")) as {
  median(values: readonly number[]): number;
  percentilePerWorker(waitsMs: readonly (readonly number[])[], share: number): number;
  ratioOf(ours: readonly number[], theirs: readonly number[]): { value: number; low: number; high: number };
};

describe("what the docs show of the newest run in bench/results", () => {
  test("the plots and the numbers are what npm run bench -- publish makes of it now", () => {
    const files = generate();
    expect(files.size).toBeGreaterThan(1);
    for (const [path, content] of files) expect(readFileSync(path, "utf8"), path).toBe(content);
  });

  test("no plot is left over", () => {
    const made = [...generate().keys()].filter((path) => path.endsWith(".svg"));
    const present = readdirSync(`${ROOT}docs/plots`).map((file) => `${ROOT}docs/plots/${file}`);
    expect(present.sort()).toEqual(made.sort());
  });

  test("the run is a whole one, says where it comes from, and has measured every bar", () => {
    const run = newestRun();
    expect(run).toMatchObject({ quick: false, command: "npm run bench -- peers", machine: {} });
    expect(run.versions).toMatchObject({ node: expect.any(String), redis: expect.any(String) });
    expect(run.settings.rounds).toBeGreaterThanOrEqual(7);
    const columns = run.workloads.flatMap(({ id, contenders }) =>
      id === "idle-waiters" ? [] : Object.values(contenders).flatMap((one) => Object.values(one)),
    );
    expect(new Set(columns.map((column) => column.length))).toEqual(new Set([run.settings.rounds]));
    expect([...new Set(barsOf(run).map(({ id }) => id))].sort()).toEqual(
      [...new Set(BARS.map(({ workload }) => workload))].sort(),
    );
  });
});

describe("bars", () => {
  const workload = (contenders: object, more: object = {}) => ({
    workloads: [{ id: "no-hold", state: "at rest", title: "one key", contenders, ...more }],
  });
  const grants = (...rate: number[]) => ({ rate, p99: rate.map(() => 10), requests: rate.map(() => 1) });
  const contenders = {
    locktender: grants(4_000, 4_000, 4_200),
    "locktender, fair": grants(300, 290, 310),
    bare: grants(9_000, 9_000, 9_000),
    verrou: grants(100, 100, 100),
    "verrou, best delay": grants(200, 200, 200),
    redlock: grants(150, 150, 150),
  };

  test("a ratio is against the best of the other libraries, and the bare client is none of them", () => {
    const [first, second] = barsOf(workload(contenders));
    expect(first).toMatchObject({ beside: "verrou, best delay", value: 20, verdict: "reached" });
    expect(second).toMatchObject({ beside: "verrou, best delay", value: 1.5, verdict: "reached" });
  });

  test("a result below its bar is missed, and what is unsupported is called so", () => {
    const slower = { ...contenders, locktender: grants(3_999, 3_998, 3_997) };
    expect(barsOf(workload(slower))[0]).toMatchObject({ verdict: "missed" });
    const noisy = { ...contenders, locktender: grants(1_000, 4_000, 9_000) };
    expect(barsOf(workload(noisy))[0]).toMatchObject({ value: 20, verdict: "unclear" });
    const verdicts = barsOf(workload({}, { unsupported: ["locktender"] })).map(({ verdict }) => verdict);
    expect(new Set(verdicts)).toEqual(new Set(["unsupported"]));
  });
});

describe("statistics", () => {
  test("the median of the ratios of each round, whatever slows a whole round", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 2, 3])).toBe(2.5);
    const { value, low, high } = ratioOf([200, 20, 2_000, 210, 190], [100, 10, 1_000, 100, 100]);
    expect(value).toBe(2);
    expect([low, high]).toEqual([1.9, 2.1]);
  });

  test("the same measurements give the same interval, and it holds the median", () => {
    const ours = [5, 9, 7, 6, 8, 7, 10];
    const theirs = ours.map(() => 2);
    const first = ratioOf(ours, theirs);
    expect(ratioOf(ours, theirs)).toEqual(first);
    expect(first.low).toBeLessThan(first.value);
    expect(first.high).toBeGreaterThan(first.value);
  });
});

test("many short waits of one worker do not hide the long waits of the others", () => {
  const lucky = Array.from({ length: 1_000 }, () => 1);
  expect(percentilePerWorker([lucky, [500], [400]], 0.99)).toBe(500);
  expect(percentilePerWorker([lucky, [500], [400]], 0.5)).toBe(400);
  expect(percentilePerWorker([lucky, lucky], 0.99)).toBe(1);
});

describe("the processes of a contender", () => {
  test("workers hold the lock one after the other, and a wait that is not over ends with the slice", async () => {
    const group = await startGroup({ library: "locktender", url: "memory:bench-test" });
    onTestFinished(() => group.stop());
    const untilMs = nowMs() + 500;
    const [report] = await group.ask("contended", { name: "one", workers: 4, untilMs, holdMs: 20 });
    const all = (report?.workers ?? []).flat();
    const held = all.flatMap(([, from, to]) => (from === undefined || to === undefined ? [] : [[from, to]]));
    held.sort(([one = 0], [other = 0]) => one - other);
    expect(held.length).toBeGreaterThan(1);
    for (const [index, [from = 0]] of held.slice(1).entries())
      expect(from).toBeGreaterThanOrEqual(held[index]?.[1] ?? Infinity);
    expect(all.filter((times) => times.length === 1).length).toBeGreaterThan(0);
  });

  test("a refusal of the library comes back with its code, and the process goes on", async () => {
    const group = await startGroup({ library: "locktender", url: "memory:bench-test" });
    onTestFinished(() => group.stop());
    const asked = { most: 1, tasks: 1, newNames: true };
    const refused = group.ask("uncontended", { ...asked, lock: { sticky: "10h" } });
    await expect(refused).rejects.toMatchObject({ code: "invalid-option" });
    await expect(group.ask("uncontended", asked)).resolves.toMatchObject([{ cycles: 1 }]);
  });
});

test("the other libraries are pinned, without a registry, and are no dependency of the package", () => {
  const read = (file: string) => readFileSync(ROOT + file, "utf8");
  const lock = read("bench/peers/package-lock.json");
  expect(lock).not.toContain('"resolved"');
  expect(read("bench/peers/.npmrc")).toBe(read(".npmrc"));
  const { dependencies } = JSON.parse(read("bench/peers/package.json")) as {
    dependencies: Readonly<Record<string, string>>;
  };
  expect(Object.values(dependencies).filter((version) => !/^\d+\.\d+\.\d+/.test(version))).toEqual([]);
  const own = JSON.parse(read("package.json")) as Readonly<Record<string, object | undefined>>;
  const ours = Object.keys({ ...own.dependencies, ...own.devDependencies, ...own.peerDependencies });
  expect(Object.keys(dependencies).filter((name) => ours.includes(name))).toEqual([]);
  expect(existsSync(`${ROOT}bench/peers/node_modules`)).toBe(false);
});
