import { randomUUID } from "node:crypto";
import { createLocks } from "locktender";
import { etcd } from "locktender/etcd";
import { mysql } from "locktender/mysql";
import { postgres } from "locktender/postgres";
import { redis } from "locktender/redis";
import { redlock } from "locktender/redlock";
import { sqlite } from "locktender/sqlite";
import { zookeeper } from "locktender/zookeeper";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Backend } from "#lib/core/backend.js";
import { type Owner, WHOLE } from "#lib/core/claim.js";
import { UNKNOWN_OWNER } from "#lib/engine-kit/replies.js";
import { declareNew } from "../engines/redlock/harness.js";
import { newFile } from "../engines/sqlite/tools.js";
import { shared } from "../servers/shared.js";
import { hostsOf } from "../support/hosts-of.js";

const newPrefix = () => `t${randomUUID().slice(0, 8)}`;

const ENGINES: Readonly<Record<string, () => Promise<Backend>>> = {
  redis: async () => redis({ url: (await shared("redis")).url, prefix: newPrefix() }),
  redlock: async () => {
    const { url } = await shared("redlock");
    const prefix = newPrefix();
    await declareNew(
      hostsOf(url).map(({ port }) => port),
      prefix,
      60_000,
    );
    return redlock({ url, prefix, maxTtl: "1m" });
  },
  etcd: async () => etcd({ url: (await shared("etcd")).url, prefix: newPrefix() }),
  zookeeper: async () => zookeeper({ url: (await shared("zookeeper")).url, prefix: newPrefix() }),
  postgres: async () => postgres({ url: (await shared("postgres")).url, prefix: newPrefix() }),
  mysql: async () => mysql({ url: (await shared("mariadb")).url, prefix: newPrefix() }),
  sqlite: async () => sqlite({ file: await newFile() }),
};

const UNREADABLE: readonly unknown[] = [null, 5, "somebody", [], {}, { host: {}, pid: "x", instance: [] }];

/** An owner that is written down as something else. */
function written(owner: unknown): Owner {
  return { toJSON: () => owner } as unknown as Owner;
}

describe.each(Object.entries(ENGINES))("%s", (_, open) => {
  test("the owner of a lock is shown, and told, also if it has not been written as we write it", async () => {
    const backend = await open();
    const locks = createLocks(backend, { ttl: "5s" });
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    for (const [index, owner] of UNREADABLE.entries()) {
      const name = `held-${index}`;
      const claim = { name, id: `id-${index}`, weight: WHOLE, capacity: WHOLE, ttlMs: 10_000 };
      const others = { fixed: false, minHoldMs: 0, queue: false, owner: written(owner), note: 5 as never };
      expect(await backend.claim({ ...claim, ...others })).toMatchObject({ state: "granted" });
      const view = await locks.inspect(name);
      expect(view?.holders).toMatchObject([{ owner: UNKNOWN_OWNER, note: "" }]);
      await expect(locks.mutex(name).acquire({ wait: "50ms" })).rejects.toMatchObject({ code: "timeout" });
    }
    const views: unknown[] = [];
    for await (const view of locks.list({ prefix: "held-" })) views.push(view);
    expect(views).toHaveLength(UNREADABLE.length);
  });
});
