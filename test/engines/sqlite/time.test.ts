import { afterEach, describe, expect, test, vi } from "vitest";
import { grantedTicket, names, newFile, open, openRaw, refusal, request } from "./tools.js";

afterEach(() => void vi.useRealTimers());

describe("boots", () => {
  test("claims of another boot are dead, and tickets go on growing", async () => {
    const file = await newFile();
    const before = open({ file });
    const first = await grantedTicket(before, "x", "id-1", { ttlMs: 1_000_000 });
    await before.close();
    openRaw(file).exec("UPDATE machine SET boot = 'another boot'");
    const after = open({ file });
    expect(await names(after, "")).toEqual([]);
    expect(await grantedTicket(after, "x", "id-2")).toBeGreaterThan(first);
    expect(await after.renew([{ name: "x", id: "id-1", ticket: first, ttlMs: 1_000 }])).toEqual([
      { state: "gone", loss: "taken" },
    ]);
  });

  test("a file that another machine has taken over is refused from then on, by all operations that grant", async () => {
    const file = await newFile();
    const backend = open({ file });
    const ticket = await grantedTicket(backend, "x", "id-1");
    openRaw(file).exec("UPDATE machine SET boot = 'another machine'");
    expect(await refusal(backend.claim(request("y", "id-2")))).toMatchObject({ code: "unsupported" });
    const renewal = backend.renew([{ name: "x", id: "id-1", ticket, ttlMs: 1_000 }]);
    expect(await refusal(renewal)).toMatchObject({ code: "unsupported" });
  });
});

describe("the wall clock", () => {
  test("set back by a year, it does not make tickets smaller", async () => {
    const backend = open({ file: await newFile() });
    const first = await grantedTicket(backend, "x", "id-1");
    await backend.release({ name: "x", id: "id-1" });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() - 365 * 86_400_000 });
    expect(await grantedTicket(backend, "x", "id-2")).toBe(first + 1n);
  });

  test("set forth by a year, it does not make a claim expire", async () => {
    const backend = open({ file: await newFile() });
    await grantedTicket(backend, "x", "id-1");
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 365 * 86_400_000 });
    expect((await backend.claim(request("x", "id-2"))).state).toBe("waiting");
  });
});

describe("idle names", () => {
  async function useNames(file: string, retention: number, prefix: string, number: number): Promise<void> {
    const backend = open({ file, retention });
    for (let n = 0; n < number; n++) {
      await grantedTicket(backend, `${prefix}:${n}`, `id-${n}`);
      await backend.release({ name: `${prefix}:${n}`, id: `id-${n}` });
    }
    await backend.close();
  }

  const count = (file: string, table: string) =>
    openRaw(file).prepare(`SELECT count(*) AS n FROM ${table}`).get() as { n: number };

  test("they vanish after the retention in the course of ordinary work", async () => {
    const file = await newFile();
    await useNames(file, 3_600_000, "old", 500);
    expect(count(file, "resources").n).toBe(500);
    await new Promise((resolve) => setTimeout(resolve, 60));
    await useNames(file, 50, "busy", 300);
    expect(
      openRaw(file).prepare("SELECT count(*) AS n FROM resources WHERE name LIKE 'old:%'").get(),
    ).toMatchObject({
      n: 0,
    });
  });

  test("they are kept before it is over, and as long as a holder holds them", async () => {
    const file = await newFile();
    const holder = open({ file });
    await grantedTicket(holder, "held", "id");
    await useNames(file, 3_600_000, "young", 100);
    expect(count(file, "resources").n).toBe(101);
    await new Promise((resolve) => setTimeout(resolve, 20));
    await useNames(file, 10, "busy", 200);
    expect(await names(holder, "held")).toEqual(["held"]);
    expect(openRaw(file).prepare("SELECT name FROM resources WHERE name = 'held'").all()).toHaveLength(1);
  });

  test("names of cells alone vanish, too, when they were deleted or are over", async () => {
    const file = await newFile();
    const { cells } = open({ file, retention: 1 });
    await cells?.write("kept", { text: "1" });
    for (let n = 0; n < 600; n++) {
      await cells?.write(`deleted:${n}`, { text: "1" });
      await cells?.write(`deleted:${n}`, { text: undefined });
      await cells?.write(`over:${n}`, { text: "1", keepMs: 1 });
    }
    await vi.waitFor(() => expect(count(file, "resources").n).toBeLessThan(600));
    expect(count(file, "cells").n).toBeLessThan(600);
    expect((await cells?.read("kept"))?.text).toBe("1");
  });

  test("claims that are all left behind do not pile up", async () => {
    const file = await newFile();
    const backend = open({ file });
    for (let n = 0; n < 1_500; n++) {
      const claim = request(`run:${n}`, `id-${n}`, { minHoldMs: 1 });
      await backend.claim(claim);
      await backend.release(claim);
    }
    const left = openRaw(file).prepare("SELECT count(*) AS n FROM claims");
    await vi.waitFor(() => expect((left.get() as { n: number }).n).toBeLessThan(700));
  });

  test("a claim that a crashed process left behind is dropped, although no process asks for its name", async () => {
    const file = await newFile();
    const crashed = open({ file });
    await grantedTicket(crashed, "abandoned", "id", { ttlMs: 20 });
    await new Promise((resolve) => setTimeout(resolve, 30));
    await useNames(file, 3_600_000, "busy", 300);
    expect(count(file, "claims").n).toBe(0);
  });
});
