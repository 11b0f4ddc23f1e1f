import { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "locktender";
import { startFaultProxy } from "locktender/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { shared } from "../servers/shared.js";
import { hostsOf } from "../support/hosts-of.js";

const OUTAGE_MS = 2_000;
/** Without a pause that all requests share, each of some hundred would connect by itself, several times. */
const MOST = 40;

test("etcd is down: however many requests are made, few connections are tried", async () => {
  const [target] = hostsOf((await shared("etcd")).url);
  if (target === undefined) expect.unreachable();
  const proxy = await startFaultProxy({ target });
  const locks = await connect(`etcd://${proxy.host}:${proxy.port}`, { prefix: `reconnects-${process.pid}` });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  await locks.mutex("before").run(() => undefined);
  await proxy.close();
  const connects = vi.spyOn(Socket.prototype, "connect");
  onTestFinished(() => connects.mockRestore());
  const untilMs = performance.now() + OUTAGE_MS;
  for (let at = 0; performance.now() < untilMs; at++) {
    await expect(locks.mutex(`name-${at}`).tryAcquire()).rejects.toMatchObject({ code: "backend" });
    await sleep(5);
  }
  expect(connects.mock.calls.length).toBeLessThan(MOST);
});
