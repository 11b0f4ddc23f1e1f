import { Redis } from "ioredis";
import { createLocks } from "locktender";
import { redis } from "locktender/redis";
import { describe, expect, onTestFinished, test } from "vitest";
import { shared } from "../../servers/shared.js";
import { LIBRARIES, look, open, proxyTo } from "./tools.js";

const { url } = await shared("redis");
const port = Number(new URL(url).port);
const PREFIX = `cells-${process.pid}`;
const HOUR_MS = 3_600_000;
const AHEAD_US = BigInt(HOUR_MS) * 1_000n;

/** Locks by a client of ioredis as its users make it: what was not answered it sends again when it is back. */
async function resending() {
  const { proxy } = await proxyTo(url);
  const client = new Redis({ host: proxy.host, port: proxy.port, retryStrategy: () => 300 });
  client.on("error", () => {}); // told by the command
  const locks = createLocks(redis({ client, prefix: PREFIX, timeout: "10s" }));
  onTestFinished(async () => {
    await locks.close();
    client.disconnect();
  });
  return { locks, proxy };
}

describe("scenario S13: a change of a cell that its client sends again", () => {
  test("is carried out once, also if another client has changed the cell in between", async () => {
    const { locks, proxy } = await resending();
    const beside = open({ url, prefix: PREFIX });
    const [cell, other] = [locks.cell<number[]>("again"), beside.cell<number[]>("again")];
    await cell.write([0]);
    const cut = proxy.cutBeforeReply((chunk) => chunk.includes("[0,1]"));
    const updating = cell.update((value) => [...(value ?? []), 1]);
    await cut;
    await other.update((value) => [...(value ?? []), 2]);
    expect((await updating)?.value).toEqual([0, 1]);
    expect((await cell.read())?.value).toEqual([0, 1, 2]);
  });

  test("deletes it once, and says so", async () => {
    const { locks, proxy } = await resending();
    const cell = locks.cell<number>("deleted");
    const written = await cell.write(1);
    if (!written.written) expect.unreachable();
    const cut = proxy.cutBeforeReply((chunk) => chunk.includes(String(written.version)));
    const deleting = cell.delete({ ifVersion: written.version });
    await cut;
    expect((await deleting).written).toBe(true);
    expect(await cell.read()).toBeUndefined();
  });

  test.each(LIBRARIES)(
    "is not sent again by us: it would not be remembered for long enough, by %s",
    async (library) => {
      const { proxy, url: through } = await proxyTo(url);
      const locks = open({ url: through, prefix: `${PREFIX}-${library}`, library });
      const cell = locks.cell<number[]>("once");
      await cell.write([0]);
      const cut = proxy.cutBeforeReply((chunk) => chunk.includes("[0,1]"));
      await expect(cell.write([0, 1])).rejects.toMatchObject({ code: "backend", retryable: true });
      await cut;
      expect((await cell.read())?.value).toEqual([0, 1]);
    },
  );

  test("is remembered no longer than its caller waits for the answer", async () => {
    const locks = open({ url, prefix: `${PREFIX}-short`, timeout: "500ms", retention: 500 });
    const client = look(port);
    await locks.cell("kept").write(1);
    await locks.cell("gone").write(1);
    await locks.cell("gone").delete();
    const keys = () => client.keys(`${PREFIX}-short:*`);
    await expect.poll(keys, { timeout: 10_000 }).toEqual([`${PREFIX}-short:{kept}:cell`]);
  });
});

describe("scenario S12: the server's clock was set back by an hour", () => {
  test("versions grow through it, also when the cell was deleted in between", async () => {
    const cell = open({ url, prefix: PREFIX }).cell<number>("clock");
    const client = look(port);
    const written = await cell.write(1);
    if (!written.written) expect.unreachable();
    const future = written.version + AHEAD_US;
    await client.set(`${PREFIX}:{clock}:cell`, `${future} 1`);
    const deleted = await cell.delete();
    if (!deleted.written) expect.unreachable();
    expect(deleted.version).toBeGreaterThan(future);
    expect(await cell.read()).toBeUndefined();
    expect(await client.pttl(`${PREFIX}:{clock}:cell`)).toBeGreaterThan(HOUR_MS);
    const again = await cell.write(2, { ifVersion: null });
    expect(again.written && again.version > deleted.version).toBe(true);
  });
});
