import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { makeWrongClock, type WrongClock } from "../servers/clock.js";
import { shared } from "../servers/shared.js";
import { compile, projectOf, start } from "./project.js";

const PAGE = "docs/guide/cron.md";
const AHEAD_MS = 2_500;
const SLOTS = 4;

let project: Awaited<ReturnType<typeof projectOf>>;
let clock: WrongClock;

beforeAll(async () => {
  const { url } = await shared("redis");
  // The jobs of the page, as often as a test can wait for them, and under names of this run.
  project = await projectOf(PAGE, "module", (text) =>
    text
      .replace('"0 3 * * *"', '"* * * * * *"')
      .replace("redis://127.0.0.1:6379", `${url}?prefix=cron-${randomUUID()}`),
  );
  await compile(project.folder, { module: "nodenext", skipLibCheck: true });
  clock = await makeWrongClock();
  await clock.set(AHEAD_MS);
}, 120_000);

afterAll(async () => {
  await project?.remove();
  await clock?.remove();
});

test.each(["croner", "node-cron", "coordinator"])(
  "%s fires in three processes, one with a clock that is ahead, and each slot is run by one of them",
  async (name) => {
    const program = [`out/${name}.js`];
    const processes = [{}, {}, clock.env].map((env) => start(project.folder, program, env));
    onTestFinished(async () => {
      for (const one of processes) one.send("SIGKILL");
      await Promise.all(processes.map(({ exited }) => exited));
    });
    const slotsOf = (pattern: RegExp) =>
      processes.map(({ output }) => [...output.matchAll(pattern)].map(([, slot = ""]) => slot));
    await vi.waitFor(
      () => {
        const left = slotsOf(/^(\S+Z) left to another server$/gm);
        for (const slots of left.slice(0, 2)) expect(slots.length).toBeGreaterThan(SLOTS);
      },
      { timeout: 30_000, interval: 100 },
    );
    const [one = [], other = [], ahead = []] = slotsOf(/^(\S+Z) printed$/gm);
    const printed = [...one, ...other, ...ahead];
    expect(new Set(printed).size).toBe(printed.length);
    // Its clock makes it the first of each slot.
    expect(ahead.length).toBeGreaterThan(SLOTS);
    expect(printed.every((slot) => slot.endsWith(".000Z"))).toBe(true);
    expect(processes.map(({ output }) => output).join("")).not.toMatch(/error/i);
  },
  60_000,
);
