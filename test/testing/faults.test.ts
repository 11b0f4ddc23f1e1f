import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { describe, expect, onTestFinished, test } from "vitest";
import { startFaultProxy } from "#lib/testing/faults.js";
import { shared } from "../servers/shared.js";

const { url } = await shared("redis");
const SOON = { timeout: 5_000, interval: 10 };
/** Long enough for a command to have run a hundred times, had it not been stopped. */
const A_WHILE_MS = 150;

function redisClient(address: string): Redis {
  const client = new Redis(address, {
    lazyConnect: true,
    disableClientInfo: true,
    retryStrategy: null,
    disconnectTimeout: 50, // else a client that leaves waits 2 s for a goodbye that a fault keeps from it
  });
  client.on("error", () => {}); // the commands reject with it
  onTestFinished(() => client.disconnect());
  return client;
}

/** A proxy before a real Redis, with a client that never reconnects and one that goes around the proxy. */
async function setUp(options: { readonly trapMs?: number } = {}) {
  const proxy = await startFaultProxy({
    ...options,
    target: { host: new URL(url).hostname, port: Number(new URL(url).port) },
  });
  onTestFinished(() => proxy.close());
  const through = new URL(url);
  through.host = `${proxy.host}:${proxy.port}`;
  const newClient = async () => {
    const client = redisClient(through.href);
    await client.connect();
    return client;
  };
  const direct = redisClient(url);
  const key = `faults-${randomUUID()}`;
  onTestFinished(async () => void (await direct.del(key)));
  return { proxy, direct, key, client: await newClient(), newClient };
}

/** What became of a promise, for tests in which it may stay open. */
function watch(promise: Promise<unknown>) {
  const seen = { outcome: "pending" as "pending" | "answered" | "failed" };
  promise.then(
    () => {
      seen.outcome = "answered";
    },
    () => {
      seen.outcome = "failed";
    },
  );
  return seen;
}

const mentions = (word: string) => (data: Buffer) => data.toString("latin1").toLowerCase().includes(word);

describe("without a fault", () => {
  test("large values pass unharmed in both directions", async () => {
    const { client, direct, key } = await setUp();
    const value = randomUUID().repeat(50_000);
    await client.set(key, value);
    expect(await direct.get(key)).toBe(value);
    expect(await client.get(key)).toBe(value);
  });

  test("live connections are counted until the client leaves", async () => {
    const { proxy, client, newClient } = await setUp();
    await newClient();
    expect(proxy.connections).toBe(2);
    client.disconnect();
    await expect.poll(() => proxy.connections, SOON).toBe(1);
  });

  test("a client that only closes its sending half still gets the answer", async () => {
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      const request: Buffer[] = [];
      socket.on("data", (chunk) => request.push(chunk));
      socket.on("end", () => socket.end(`got ${Buffer.concat(request)}`));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port } });
    onTestFinished(() => proxy.close());
    const socket = connect({ port: proxy.port, host: proxy.host, allowHalfOpen: true });
    socket.end("a question");
    expect(await text(socket)).toBe("got a question");
  });

  test("a server that cannot be reached closes the client's connection", async () => {
    const proxy = await startFaultProxy({ target: { host: "127.0.0.1", port: 1 } });
    onTestFinished(() => proxy.close());
    const socket = connect({ port: proxy.port, host: proxy.host }).resume();
    await once(socket, "close");
    expect(proxy.connections).toBe(0);
  });
});

describe("delay", () => {
  test("order is kept when later commands are delayed less", async () => {
    const { proxy, client, direct, key } = await setUp();
    const sent: Promise<unknown>[] = [];
    const begin = performance.now();
    for (let i = 0; i < 10; i++) {
      proxy.delay({ toServerMs: 200 - 20 * i });
      sent.push(client.rpush(key, i));
      await sleep(5); // so that each command is a chunk of its own
    }
    expect(await direct.llen(key)).toBe(0);
    await Promise.all(sent);
    expect(performance.now() - begin).toBeGreaterThan(150);
    expect(await direct.lrange(key, 0, -1)).toEqual([..."0123456789"]);
  });

  test("a reply on its way back is delayed after the command was executed", async () => {
    const { proxy, client, direct, key } = await setUp();
    proxy.delay({ toClientMs: 1_000 });
    const reply = client.incr(key);
    const seen = watch(reply);
    await expect.poll(() => direct.get(key), SOON).toBe("1");
    expect(seen.outcome).toBe("pending");
    expect(await reply).toBe(1);
  });

  test("heal delivers at once what was delayed", async () => {
    const { proxy, client, key } = await setUp();
    proxy.delay({ toServerMs: 600_000 });
    const reply = client.incr(key);
    await sleep(A_WHILE_MS);
    proxy.heal();
    expect(await reply).toBe(1);
  });
});

describe("blackhole", () => {
  test("to the server, commands vanish without an error and never run", async () => {
    const { proxy, client, direct, key, newClient } = await setUp();
    proxy.blackhole("to-server");
    const seen = watch(client.incr(key));
    await sleep(A_WHILE_MS);
    expect(seen.outcome).toBe("pending");
    expect(proxy.connections).toBe(1);

    proxy.heal();
    await expect.poll(() => seen.outcome, SOON).toBe("failed");
    expect(await direct.get(key)).toBeNull();
    expect(await (await newClient()).incr(key)).toBe(1);
  });

  test("to the client, commands run and only their replies vanish", async () => {
    const { proxy, client, direct, key } = await setUp();
    proxy.blackhole("to-client");
    const seen = watch(client.incr(key));
    await expect.poll(() => direct.get(key), SOON).toBe("1");
    await sleep(A_WHILE_MS);
    expect(seen.outcome).toBe("pending");
    proxy.heal();
    await expect.poll(() => seen.outcome, SOON).toBe("failed");
  });

  test("in both directions, the server does not hear of a client that left until the wire heals", async () => {
    const { proxy, client, direct } = await setUp();
    const id = await client.client("ID");
    const isListed = async () => String(await direct.client("LIST")).includes(`id=${id} `);
    proxy.blackhole("both");
    client.disconnect();
    await sleep(A_WHILE_MS);
    expect(await isListed()).toBe(true);
    proxy.heal();
    await expect.poll(isListed, SOON).toBe(false);
  });

  test("a connection that was silent all the while survives", async () => {
    const { proxy, client } = await setUp();
    proxy.blackhole("both");
    await sleep(A_WHILE_MS);
    proxy.heal();
    expect(await client.ping()).toBe("PONG");
  });
});

describe("cutBeforeReply", () => {
  test("the command was executed though the client got an error, and the next one is fine", async () => {
    const { proxy, client, direct, key, newClient } = await setUp();
    const cut = proxy.cutBeforeReply();
    await expect(client.incr(key)).rejects.toThrow(/closed/);
    await cut;
    expect(await direct.get(key)).toBe("1");
    expect(await (await newClient()).incr(key)).toBe(2);
  });

  test("commands that do not match pass until one does", async () => {
    const { proxy, client, direct, key } = await setUp();
    const cut = watch(proxy.cutBeforeReply(mentions("incr")));
    expect(await client.set(key, 5)).toBe("OK");
    expect(cut.outcome).toBe("pending");
    await expect(client.incr(key)).rejects.toThrow(/closed/);
    await expect.poll(() => cut.outcome, SOON).toBe("answered");
    expect(await direct.get(key)).toBe("6");
  });

  test("heal calls it off, and tells the test that waits for it", async () => {
    const { proxy, client, key } = await setUp();
    const cut = proxy.cutBeforeReply();
    proxy.heal();
    await expect(cut).rejects.toThrow(/heal/);
    expect(await client.incr(key)).toBe(1);
  });

  test("a connection that ends without a reply tells the test that waits for the cut", async () => {
    const { proxy, client, direct, key } = await setUp();
    const cut = proxy.cutBeforeReply(mentions("blpop"));
    const seen = watch(client.blpop(key, 0));
    await expect.poll(async () => String(await direct.client("LIST")), SOON).toContain("cmd=blpop");
    proxy.dropAll();
    await expect(cut).rejects.toThrow(/ended before/);
    await expect.poll(() => seen.outcome, SOON).toBe("failed");
  });
});

describe("a trap that no data matches", () => {
  test("cutBeforeReply and holdBack reject within the time that was given, and say why", async () => {
    const { proxy, client, key } = await setUp({ trapMs: 200 });
    const begin = performance.now();
    const cut = proxy.cutBeforeReply((data) => data.includes("in no request"));
    const held = proxy.holdBack((data) => data.includes("in no request"));
    const waiting = [cut, held.caught, held.deliver(), held.serverClosed].map((promise) =>
      expect(promise).rejects.toThrow(
        /^no data that matches was sent through the proxy within 0\.2 s \(2 chunks .* the name of the lock, literally/,
      ),
    );
    await client.incr(key);
    await client.incr(key);
    await Promise.all(waiting);
    expect(performance.now() - begin).toBeLessThan(2_000);
  });

  test("what comes after that passes", async () => {
    const { proxy, client, key } = await setUp({ trapMs: 50 });
    await expect(proxy.holdBack(mentions("incr")).caught).rejects.toThrow(/within 0\.05 s/);
    expect(await client.incr(key)).toBe(1);
  });

  test("without a limit it waits for as long as it takes", async () => {
    const { proxy, client, key } = await setUp({ trapMs: Infinity });
    const cut = proxy.cutBeforeReply(mentions("incr"));
    await sleep(A_WHILE_MS);
    await expect(client.incr(key)).rejects.toThrow(/closed/);
    await cut;
  });

  test("what was caught is held for longer than that", async () => {
    const { proxy, client, key } = await setUp({ trapMs: 50 });
    const held = proxy.holdBack(mentions("incr"));
    const counted = client.incr(key);
    await held.caught;
    await sleep(A_WHILE_MS);
    await held.deliver();
    expect(await counted).toBe(1);
  });
});

describe("holdBack", () => {
  test.each(["the client closed", "the proxy dropped"])(
    "a command is executed long after %s its connection",
    async (who) => {
      const { proxy, client, direct, key } = await setUp();
      const held = proxy.holdBack(mentions("incr"));
      const seen = watch(client.incr(key));
      await held.caught;
      if (who === "the client closed") client.disconnect();
      else proxy.dropAll();
      await expect.poll(() => seen.outcome, SOON).toBe("failed");
      await sleep(A_WHILE_MS);
      expect(proxy.connections).toBe(0);
      expect(await direct.get(key)).toBeNull();

      await Promise.all([held.deliver(), held.deliver()]);
      expect(await direct.get(key)).toBe("1");
    },
  );

  test("what follows on the connection waits too and keeps its place, while other connections go on", async () => {
    const { proxy, client, direct, key, newClient } = await setUp();
    const other = await newClient();
    const held = proxy.holdBack(mentions("rpush"));
    const first = client.rpush(key, "first");
    await held.caught;
    const second = client.rpush(key, "second");
    expect(await other.ping()).toBe("PONG");
    await sleep(A_WHILE_MS);
    expect(await direct.exists(key)).toBe(0);

    await held.deliver();
    expect(await Promise.all([first, second])).toEqual([1, 2]);
    expect(await direct.lrange(key, 0, -1)).toEqual(["first", "second"]);
  });

  test("the connection to the server is closed once the client's last words are delivered", async () => {
    const { proxy, client, direct, key } = await setUp();
    const id = await client.client("ID");
    const isListed = async () => String(await direct.client("LIST")).includes(`id=${id} `);
    const held = proxy.holdBack();
    watch(client.incr(key));
    await held.caught;
    client.disconnect();
    await expect.poll(() => proxy.connections, SOON).toBe(0);
    expect(await isListed()).toBe(true);
    await held.deliver();
    await expect.poll(isListed, SOON).toBe(false);
  });

  test("delivery to a server that hung up meanwhile is an error, and not a silent nothing", async () => {
    const { proxy, client, direct, key } = await setUp();
    const id = await client.client("ID");
    const held = proxy.holdBack();
    const seen = watch(client.incr(key));
    await held.caught;
    await direct.client("KILL", "ID", id);
    await expect.poll(() => seen.outcome, SOON).toBe("failed");
    await expect(held.deliver()).rejects.toThrow(/server has closed/);
  });
});

describe("refuse, dropAll and close", () => {
  test("refuse ends live connections and new ones until heal", async () => {
    const { proxy, client, newClient } = await setUp();
    proxy.refuse();
    await expect(client.ping()).rejects.toThrow(/closed|ECONNRESET/);
    await expect(newClient()).rejects.toThrow(/closed|ECONNRESET/);
    proxy.heal();
    expect(await (await newClient()).ping()).toBe("PONG");
  });

  test("dropAll ends live connections only", async () => {
    const { proxy, client, newClient } = await setUp();
    proxy.dropAll();
    await expect(client.ping()).rejects.toThrow(/closed|ECONNRESET/);
    expect(await (await newClient()).ping()).toBe("PONG");
  });

  test("close ends everything and may be called again", async () => {
    const { proxy, client, newClient } = await setUp();
    const held = proxy.holdBack();
    await proxy.close();
    await proxy.close();
    await expect(held.caught).rejects.toThrow(/closed/);
    await expect(client.ping()).rejects.toThrow(/closed|ECONNRESET/);
    await expect(newClient()).rejects.toThrow(/closed|ECONNREFUSED/);
  });
});
