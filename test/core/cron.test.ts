import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { shared } from "../servers/shared.js";
import { run } from "./program.js";

const folder = await mkdtemp(join(tmpdir(), "locktender-cron-"));
afterAll(() => rm(folder, { recursive: true }));

const URLS = {
  sqlite: `sqlite:${join(folder, "locks.db")}`,
  redis: (await shared("redis")).url,
  postgres: (await shared("postgres")).url,
  mariadb: (await shared("mariadb")).url,
  etcd: (await shared("etcd")).url,
  zookeeper: (await shared("zookeeper")).url,
};

const LINES = {
  "a kept record": (key: string) => `await locks.once(["nightly", "${key}"], { keep: "2d" }, job);`,
  minHold: (key: string) => `await locks.mutex(["nightly", "${key}"]).tryRun({ minHold: "20s" }, job);`,
};
const ENDINGS = { "closes, and ends by itself": "await locks.close();", exits: "process.exit();" };

describe("scenario S21: five servers fire the same job, and one of them half a second later", () => {
  for (const [engine, url] of Object.entries(URLS)) {
    for (const [way, line] of Object.entries(LINES)) {
      for (const [end, ending] of Object.entries(ENDINGS)) {
        test(`${engine}: with ${way}, one process runs it, and each of them ${end} right after`, async () => {
          const server = (lateMs: number) =>
            run(`
              await sleep(${lateMs});
              const locks = await connect(${JSON.stringify(url)});
              const job = () => console.log("ran");
              ${line(`${process.pid} ${engine} ${way} ${end}`)}
              ${ending}
            `);
          const ended = await Promise.all([0, 0, 0, 0, 500].map(server));
          expect(ended.map(({ code, signal, err }) => ({ code, signal, err }))).toEqual(
            Array(5).fill({ code: 0, signal: null, err: "" }),
          );
          expect(ended.map(({ out }) => out).join("")).toBe("ran\n");
        });
      }
    }
  }
});
