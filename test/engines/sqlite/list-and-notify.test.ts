import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { Notification } from "#lib/core/backend.js";
import { grantedTicket, names, newFile, open, request } from "./tools.js";

describe("listing by prefix", () => {
  test("a prefix is taken to the letter: no wildcards, no folding of case", async () => {
    const backend = open({ file: await newFile() });
    const all = [
      "50%",
      "50%:a",
      "500:a",
      "a_b",
      "a_b:1",
      "axb:1",
      "A_b:1",
      "é:1",
      "É:1",
      "z\u{10ffff}",
      "z\u{10ffff}x",
    ];
    for (const [index, name] of all.entries()) await grantedTicket(backend, name, `id-${index}`);
    expect(await names(backend, "50%")).toEqual(["50%", "50%:a"]);
    expect(await names(backend, "a_b")).toEqual(["a_b", "a_b:1"]);
    expect(await names(backend, "A")).toEqual(["A_b:1"]);
    expect(await names(backend, "É")).toEqual(["É:1"]);
    expect(await names(backend, "z\u{10ffff}")).toEqual(["z\u{10ffff}", "z\u{10ffff}x"]);
    expect((await names(backend, "")).sort()).toEqual([...all].sort());
  });

  test("a long list comes complete, in order, and without the claims that left", async () => {
    const backend = open({ file: await newFile() });
    const all = Array.from({ length: 300 }, (_, n) => `n:${String(n).padStart(3, "0")}`);
    for (const name of all) await grantedTicket(backend, name, "id");
    for (const name of all.slice(100, 200)) await backend.release({ name, id: "id" });
    await grantedTicket(backend, "o", "id");
    expect(await names(backend, "n:")).toEqual([...all.slice(0, 100), ...all.slice(200)]);
  });
});

describe("notifications", () => {
  async function waiter(file: string, id = "waiter") {
    const backend = open({ file });
    const notify = vi.fn<(news?: Notification) => void>();
    const unwatch = backend.watch({ name: "x", id }, notify);
    const answer = await backend.claim(request("x", id));
    return { backend, notify, unwatch, answer };
  }

  test("a release through the same backend notifies the next waiter within the same turn", async () => {
    const file = await newFile();
    await grantedTicket(open({ file }), "x", "holder");
    const { backend, notify } = await waiter(file);
    // A turn that has lasted for long would be ended in between, so that timers can run.
    await new Promise(setImmediate);
    await backend.release({ name: "x", id: "holder" });
    await Promise.resolve();
    expect(notify.mock.calls).toEqual([[undefined]]);
  });

  test("a release elsewhere notifies only the waiter that is let in", async () => {
    const file = await newFile();
    const holder = open({ file });
    await grantedTicket(holder, "x", "holder");
    const [next, last] = [await waiter(file, "next"), await waiter(file, "last")];
    await new Promise((resolve) => setTimeout(resolve, 200));
    await holder.release({ name: "x", id: "holder" });
    await vi.waitFor(() => expect(next.notify).toHaveBeenCalled(), { timeout: 1_000, interval: 1 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(next.notify).toHaveBeenCalledTimes(1);
    expect(last.notify).not.toHaveBeenCalled();
    expect((await next.backend.claim(request("x", "next"))).state).toBe("granted");
  });

  test("a waiter that learns that a claim ahead has expired lets all claims in that fit, also those not notified", async () => {
    const file = await newFile();
    const dead = open({ file });
    await grantedTicket(dead, "x", "dead", { weight: 2, capacity: 2, ttlMs: 100 });
    const backend = open({ file });
    const notified = new Map(["one", "two", "three"].map((id) => [id, vi.fn()]));
    for (const [id, notify] of notified) {
      backend.watch({ name: "x", id }, notify);
      expect((await backend.claim(request("x", id, { capacity: 2 }))).state).toBe("waiting");
    }
    await new Promise((resolve) => setTimeout(resolve, 120));
    expect((await backend.claim(request("x", "one", { capacity: 2 }))).state).toBe("granted");
    await vi.waitFor(() => expect(notified.get("two")).toHaveBeenCalled(), { timeout: 1_000, interval: 1 });
    expect(notified.get("three")).not.toHaveBeenCalled();
  });

  test("a holder hears from another connection that it was forced out, by whom and why, without asking", async () => {
    const file = await newFile();
    const { notify, answer } = await waiter(file, "holder");
    expect(answer.state).toBe("granted");
    await open({ file }).release({ name: "x", id: "holder" }, { reason: "stuck", by: "operator" });
    await vi.waitFor(() => expect(notify).toHaveBeenCalled(), { timeout: 2_000, interval: 5 });
    const ticket = "ticket" in answer ? answer.ticket : undefined;
    expect(notify).toHaveBeenCalledWith({
      state: "gone",
      loss: "forced",
      reason: "stuck",
      by: "operator",
      ticket,
    });
  });

  test("the file itself gives the hint: without any timer, waiters are notified, again and again", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const file = await newFile();
    const [other, backend] = [open({ file }), open({ file })];
    for (const turn of ["1", "2", "3"]) {
      await grantedTicket(other, "x", `holder-${turn}`);
      const notified = new Promise<void>((resolve) => {
        backend.watch({ name: "x", id: `waiter-${turn}` }, () => resolve());
      });
      expect((await backend.claim(request("x", `waiter-${turn}`))).state).toBe("waiting");
      await other.release({ name: "x", id: `holder-${turn}` });
      await notified;
      await grantedTicket(backend, "x", `waiter-${turn}`);
      await backend.release({ name: "x", id: `waiter-${turn}` });
    }
  });

  test("a waiter that no longer watches is not notified", async () => {
    const file = await newFile();
    const holder = open({ file });
    await grantedTicket(holder, "x", "holder");
    const { notify, unwatch } = await waiter(file);
    unwatch();
    await holder.release({ name: "x", id: "holder" });
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(notify).not.toHaveBeenCalled();
  });

  test("neither the timer nor the watch behind it keeps a process from ending", async () => {
    const idler = fileURLToPath(new URL("./idler.mjs", import.meta.url));
    const child = fork(idler, [await newFile()]);
    onTestFinished(() => void child.kill("SIGKILL"));
    expect(await once(child, "exit")).toEqual([0, null]);
  });
});

describe("a lock that is taken away by the own process", () => {
  test("its holder is told at once, and not when it next looks", async () => {
    const backend = open({ file: await newFile() });
    const claim = request("x", "id-1");
    const told = new Promise<Notification | undefined>((resolve) =>
      onTestFinished(backend.watch(claim, resolve)),
    );
    await grantedTicket(backend, "x", "id-1");
    await backend.release(claim, { reason: "maintenance" });
    const late = new Promise((resolve) => setTimeout(resolve, 100, "late"));
    expect(await Promise.race([told, late])).toMatchObject({ state: "gone", loss: "forced" });
  });
});
