import { describe, expect, onTestFinished, test } from "vitest";
import { crowdPromises } from "../databases/crowds.js";
import { faultPromises } from "../databases/faults.js";
import { smallDisk, staysRightWhenFull } from "../databases/full-disk.js";
import { askMariadb, startMariadb } from "./server.js";
import { backend, DATABASE, newPrefix, open, queued, request, sleep } from "./tools.js";

faultPromises(DATABASE);

describe("many at once", () => crowdPromises(DATABASE));

test("a full disk is an error, never a grant; and what is held can still be given back", async (context) => {
  const folder = await smallDisk(context, 3);
  // MySQL takes only folders that it was told at its start; MariaDB does not know the setting.
  const full = await startMariadb([`--loose-innodb-directories=${folder}`]);
  onTestFinished(() => full.stop());
  const prefix = newPrefix();
  const one = backend({ url: full.url, prefix, timeout: "20s" });
  await one.release(request("warm"));
  // The table of claims moves to the small disk.
  const [row] = await askMariadb(full.url, `SHOW CREATE TABLE ${prefix}_claims`);
  const create = String(row?.["Create Table"]).replace(
    /ENGINE=InnoDB/,
    `ENGINE=InnoDB DATA DIRECTORY='${folder}'`,
  );
  await askMariadb(full.url, `DROP TABLE ${prefix}_claims; ${create}`);
  await staysRightWhenFull(one, folder);
});

test("waiters of a process cost one statement per poll together, and few when nothing moves", async () => {
  // Of its own: the server counts for all its clients.
  const server = await startMariadb();
  onTestFinished(() => server.stop());
  const { url } = server;
  const prefix = newPrefix();
  const holder = open({ url, prefix }, { ttl: "60s" });
  const waiter = open({ url, prefix }, { ttl: "60s" });
  const names = Array.from({ length: 20 }, (_, index) => `n-${index}`);
  const leases = await Promise.all(names.map((name) => holder.mutex(name).acquire()));
  const waits = names.flatMap((name) =>
    [0, 1, 2].map(() => waiter.mutex(name, { fair: true }).run(() => undefined)),
  );
  await Promise.all(names.map((name) => queued(holder, name, 3)));
  await sleep(1_000);
  const calls = async () => {
    const [row] = await askMariadb(url, "SHOW GLOBAL STATUS LIKE 'Com_call_procedure'");
    return Number(row?.Value);
  };
  const before = await calls();
  await sleep(2_000);
  // 60 claims wait: every 100 ms one statement, and a few for chance.
  expect((await calls()) - before).toBeLessThan(40);
  await Promise.all(leases.map((lease) => lease.release()));
  await Promise.all(waits);
});
