import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { CERTIFICATE_FILE, startRedisSingle } from "../engines/redis/server.js";
import { makeCertificate } from "../servers/certificates.js";
import { begin, byLibrary, everyPlace, HANDED_OVER, type Place, removeFiles } from "./places.js";

/** Long enough for a busy machine; what is kept alive by a connection does not end at all. */
const SOON_MS = 5_000;

const secured = await startRedisSingle(await makeCertificate());
const env = { NODE_EXTRA_CA_CERTS: join(secured.node.process.folder, CERTIFICATE_FILE) };
const places = [
  ...(await everyPlace()),
  ...byLibrary("Redis with TLS", "redis", secured.url).map((place) => ({ ...place, env })),
];
afterAll(async () => {
  await secured.stop();
  await removeFiles();
});

/** It says that it has finished, and then it ends by itself. */
async function expectEnd(place: Place, source: string): Promise<void> {
  const program = begin(place, `${source}\nconsole.log("done");`);
  await program.printed("done");
  const doneAt = performance.now();
  expect(await program.ended).toMatchObject({ code: 0, signal: null, out: "done\n", err: "" });
  expect(performance.now() - doneAt).toBeLessThan(SOON_MS);
}

describe.concurrent.each(places)("$title: a program", (place) => {
  test("that has finished ends, though it has closed nothing", async () => {
    await expectEnd(place, HANDED_OVER);
  });

  test("that has finished ends, though it still holds a lock", async () => {
    await expectEnd(
      place,
      'const lease = await locks.mutex("held-" + process.pid).acquire(); await sleep(300);',
    );
  });

  test("that works under a lock, or waits for one, does not end before that", async () => {
    const program = begin(
      place,
      `const mutex = locks.mutex("waited-" + process.pid);
       const working = mutex.run(() => new Promise((resolve) => void setTimeout(resolve, 1_000).unref()));
       await sleep(100);
       await mutex.acquire({ wait: Infinity });
       await working;
       console.log("done");`,
    );
    expect(await program.ended).toMatchObject({ code: 0, signal: null, out: "done\n", err: "" });
  });
});
