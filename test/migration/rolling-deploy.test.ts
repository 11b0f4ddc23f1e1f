import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { begin, overlaps, type Running, start, type Turn } from "./deploy.js";
import { PEERS } from "./peers.js";
import { newProject, type Project, type Release } from "./releases.js";

// What docs/guide/migrating.md says about a rolling deploy, with the other libraries as they are installed.

const TASKS = 2;
const TURNS = 12;
const WORK_MS = 20;
/** Longer than a process needs to be killed after it has said that it is in. */
const LONG_WORK_MS = 5_000;
/** The ttl of the old lock is 10 s, and redlock waits for 8 s. */
const DEAD_FOR_MS = 4_000;

test("the check finds turns that overlap, and those within a longer one", () => {
  const turn = (from: number, to: number): Turn => ({ process: 0, from: BigInt(from), to: BigInt(to) });
  expect(overlaps([turn(5, 7), turn(0, 2), turn(2, 5)])).toEqual([]);
  expect(overlaps([turn(0, 9), turn(1, 2), turn(3, 4), turn(9, 10)])).toHaveLength(2);
});

describe.concurrent.each(PEERS)("from %s", (peer) => {
  let project: Project;

  beforeAll(async () => {
    project = await newProject(peer);
  });

  afterAll(() => project.remove());

  /** Two processes of each release, at one thing. */
  function deploy(...releases: readonly Release[]): Running[] {
    const name = `migration:${randomUUID()}`;
    const files = [...releases, ...releases].map((release) => project.fileOf(release));
    return files.map((file) => start(file, name, TURNS, WORK_MS));
  }

  async function turnsOf(running: readonly Running[]): Promise<Turn[]> {
    await begin(running);
    return (await Promise.all(running.map(({ turns }) => turns))).flat();
  }

  test.each<[string, Release, Release]>([
    ["N beside N + 1", "old", "both"],
    ["N + 1 beside N + 2", "both", "fresh"],
  ])("%s: all get all their turns, one at a time", async (_, one, other) => {
    const running = deploy(one, other);
    const turns = await turnsOf(running);
    expect(turns).toHaveLength(running.length * TASKS * TURNS);
    expect(overlaps(turns)).toEqual([]);
  });

  test("N beside N + 2: without the recipe two are in at once, and the check finds it", async () => {
    expect(overlaps(await turnsOf(deploy("old", "fresh")))).not.toEqual([]);
  });

  test("a process of N + 1 that is killed while it works: the others go on, one at a time", async () => {
    const name = `migration:${randomUUID()}`;
    const victim = start(project.fileOf("both"), name, 1, LONG_WORK_MS);
    const releases: readonly Release[] = ["old", "both"];
    const others = releases.map((release) => start(project.fileOf(release), name, 2, WORK_MS));
    await begin([victim]);
    await victim.printed("in");
    await victim.kill();
    await sleep(DEAD_FOR_MS);
    await begin(others);
    const all = [victim, ...others];
    const turns = (await Promise.all(all.map((one) => one.turns))).flat();
    expect(turns).toHaveLength(1 + others.length * TASKS * 2);
    expect(overlaps(turns)).toEqual([]);
  });
});
