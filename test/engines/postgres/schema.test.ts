import { expect, test } from "vitest";
import { optionPromises } from "../databases/options.js";
import { schemaPromises } from "../databases/schema.js";
import { backend, DATABASE, poolOf, request, SERVER } from "./tools.js";

schemaPromises(DATABASE);
optionPromises(DATABASE);

test("a user whose transactions do not see what others commit is refused", async () => {
  const pool = poolOf(`${SERVER.url}?options=-c%20default_transaction_isolation%3Dserializable`);
  await expect(backend({ pool }).claim(request("a"))).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringMatching(/read committed/),
  });
});
