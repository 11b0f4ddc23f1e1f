import { createLocks, type Locks } from "locktender";
import { postgres } from "locktender/postgres";
import { expect, onTestFinished, test } from "vitest";
import { startFaultProxy } from "#lib/testing/faults.js";
import { askPostgres, startPostgres, startStandby } from "./server.js";
import { eventually, newPrefix, queued, sleep } from "./tools.js";

function locksAt(url: string, prefix: string, ttl: "8s" | "60s"): Locks {
  const locks = createLocks(postgres({ url, prefix, timeout: "1s" }), { ttl });
  onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
  return locks;
}

test("a primary that has lost its synchronous standby lets no waiter in while the standby's holder goes on", async () => {
  const primary = await startPostgres();
  onTestFinished(() => primary.stop());
  const replication = await startFaultProxy({ target: { host: primary.host, port: primary.port } });
  onTestFinished(() => replication.close());
  const standby = await startStandby(replication);
  onTestFinished(() => standby.stop());
  await eventually(
    "it replicates",
    10_000,
    async () => (await askPostgres(primary.url, "SELECT 1 FROM pg_stat_replication")).length === 1,
  );
  await askPostgres(primary.url, "ALTER SYSTEM SET synchronous_standby_names = '*'");
  await askPostgres(primary.url, "SELECT pg_reload_conf()");
  await sleep(300);

  const target = { host: primary.host, port: primary.port };
  const address = await startFaultProxy({ target });
  onTestFinished(() => address.close());
  const prefix = newPrefix();
  const holder = locksAt(primary.url.replace(`:${primary.port}`, `:${address.port}`), prefix, "8s");
  const lease = await holder.mutex("a").acquire();
  const waiting = locksAt(primary.url, prefix, "60s").mutex("a").acquire({ wait: "40s" });
  let letIn = false;
  waiting.then(
    () => {
      letIn = true;
    },
    () => undefined,
  );
  await queued(holder, "a", 1);
  await sleep(500);

  // The network splits: the standby and the holder are on one side, the old primary and the waiter on the other.
  replication.refuse();
  Object.assign(target, { port: standby.port });
  address.dropAll();
  await askPostgres(standby.url, "SELECT pg_promote()");

  // What is asked of the old primary is not on the standby, so it fails; and nothing may follow from it. The same
  // happens, only not each time, when any request there finds that the holder's claim has run out.
  const operator = locksAt(primary.url, prefix, "60s");
  await expect(operator.forceRelease("a", { reason: "test" })).rejects.toMatchObject({ code: "backend" });
  await sleep(2_000);
  // The holder has gone on at the new primary all the time.
  expect({ held: lease.held, letIn }).toEqual({ held: true, letIn: false });
}, 90_000);
