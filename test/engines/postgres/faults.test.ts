import { describe, expect, onTestFinished, test } from "vitest";
import { giveTo } from "../../servers/as-user.js";
import { crowdPromises } from "../databases/crowds.js";
import { faultPromises } from "../databases/faults.js";
import { smallDisk, staysRightWhenFull } from "../databases/full-disk.js";
import { askPostgres, startPostgres, startStandby } from "./server.js";
import { backend, DATABASE, newPrefix, request } from "./tools.js";

faultPromises(DATABASE);

describe("many at once", () => crowdPromises(DATABASE));

test("a replica is refused, and says that it is one", async () => {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const prefix = newPrefix();
  await backend({ url: server.url, prefix }).claim(request("a"));
  const standby = await startStandby(server);
  onTestFinished(() => standby.stop());
  const asked = backend({ url: standby.url, prefix }).claim(request("a"));
  await expect(asked).rejects.toMatchObject({ code: "backend", message: expect.stringMatching(/replica/) });
});

test("a full disk is an error, never a grant; and what is held can still be given back", async (context) => {
  const folder = await smallDisk(context, 2);
  await giveTo("postgres", folder);
  const full = await startPostgres();
  onTestFinished(() => full.stop());
  await askPostgres(full.url, `CREATE TABLESPACE small LOCATION '${folder}'`);
  await askPostgres(full.url, "ALTER ROLE postgres SET default_tablespace = 'small'");
  await staysRightWhenFull(backend({ url: full.url, timeout: "10s" }), folder);
});
