import { connect } from "locktender";
import { afterAll, describe, expect, test } from "vitest";
import { askRedis, startRedisServers } from "../redis/server.js";
import { proxyTo, Quorum, sleep, urlOf } from "./tools.js";

// What is known of a server before its first vote counts: which one it is, and whether it is new.

const servers = await startRedisServers(3);
const { ports } = servers;
const [first = 0, second = 0, third = 0] = ports;
afterAll(() => servers.stop());

describe("a server that is reached by two names has one vote", () => {
  test("it is refused", async () => {
    await expect(connect(urlOf([first, second]).concat(`,localhost:${first}`))).rejects.toMatchObject({
      code: "invalid-option",
      message: expect.stringContaining("are the same server"),
    });
  });

  test("also if one of them could not be reached when the quorum was opened", async () => {
    const quorum = await Quorum.on(ports);
    const [wire, alias] = [await proxyTo(second), await proxyTo(first)];
    alias.refuse();
    const mistaken = quorum.open({}, { url: urlOf([first, wire.port, alias.port]) });
    await mistaken.mutex("b").run(() => undefined);
    alias.heal();
    wire.refuse();
    await expect(mistaken.mutex("a").tryAcquire()).rejects.toMatchObject({
      code: "backend",
      message: expect.stringContaining("are the same server"),
    });
    expect(await quorum.open().mutex("a").tryAcquire()).toMatchObject({ held: true });
  });

  test("also if one of them comes to mean the other's server later on", async () => {
    const quorum = await Quorum.on(ports);
    const [wire, name] = [await proxyTo(second), await proxyTo(third)];
    const mistaken = quorum.open({}, { url: urlOf([first, wire.port, name.port]) });
    await mistaken.mutex("b").run(() => undefined);
    await name.close();
    await proxyTo(first, name.port);
    wire.refuse();
    // It connects by itself, while no caller asks for anything.
    await sleep(500);
    await expect(mistaken.mutex("a").tryAcquire()).rejects.toMatchObject({
      code: "backend",
      message: expect.stringContaining("are the same server"),
    });
  });
});

describe("servers that are declared new", () => {
  test("only if all of them are; those that were never used say so", async () => {
    expect(await new Quorum(ports, { fresh: true }).open().mutex("a").tryAcquire()).not.toBeNull();
    const quorum = new Quorum(ports, { maxTtl: "500ms", fresh: false });
    await expect(quorum.open({ ttl: "300ms" }).mutex("a").tryAcquire()).rejects.toMatchObject({
      code: "backend",
      message: expect.stringContaining("fresh: true"),
    });
    const late = quorum.open({ ttl: "300ms" }, { fresh: true });
    await expect(late.mutex("a").tryAcquire()).rejects.toMatchObject({ code: "backend" });
    expect(await quorum.held("a", { ttl: "300ms" })).toMatchObject({ held: true });
  });

  test("those that are still starting are waited for, and nothing is asked of the others before", async () => {
    const quorum = new Quorum(ports);
    const { locks, proxies } = await quorum.behind([2], { wait: "10s" });
    proxies[0]?.refuse();
    await expect(locks.mutex("a").tryAcquire()).rejects.toMatchObject({
      code: "backend",
      retryable: true,
      message: expect.stringContaining("fresh"),
    });
    const waiting = locks.mutex("a").acquire();
    await sleep(300);
    proxies[0]?.heal();
    expect(await waiting).toMatchObject({ held: true });
  });

  test("a declaration that arrives after the server was used, and has forgotten that, is not believed", async () => {
    const quorum = new Quorum(ports, { maxTtl: "3s" });
    const late = await quorum.behind([2]);
    await Quorum.on(ports); // so that the script is known, and the word is only in what is asked
    const declared = late.proxies[0]?.holdBack((data) => data.includes("\r\ndeclare\r\n"));
    const asked = late.locks.mutex("a").tryAcquire({ ttl: "3s" });
    await declared?.caught;
    const others = await quorum.behind([0]);
    await others.locks.mutex("a").tryAcquire({ ttl: "3s" });
    others.proxies[0]?.refuse();
    // The third server votes only now that its time is over: no client has declared it.
    await sleep(3_100);
    const lease = await others.locks.mutex("b").acquire({ ttl: "3s", renew: false });
    expect(await quorum.claims("b")).toEqual([0, 1, 1]);
    await askRedis(third, "FLUSHALL");
    await declared?.deliver();
    await asked.catch(() => undefined);
    const another = quorum.open({}, { fresh: false });
    expect(await another.mutex("b").tryAcquire({ ttl: "3s" })).toBeNull();
    expect(lease.held).toBe(true);
  });
});
