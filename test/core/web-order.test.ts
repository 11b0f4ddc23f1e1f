import { createLocks } from "locktender";
import { memory } from "locktender/memory";
import { expect, onTestFinished, test } from "vitest";

test("requests of one program keep their order, whichever scope they were made by", async () => {
  const backend = memory();
  const { claim } = backend;
  let asked = 0;
  // The first one takes longer on its way.
  backend.claim = async (request) => {
    if (asked++ === 0) await new Promise((resolve) => setTimeout(resolve, 30));
    return claim.call(backend, request);
  };
  const locks = createLocks(backend);
  onTestFinished(() => locks.close());
  const order: string[] = [];
  const request = (who: string) => locks.scope("tenant").web.request("a", () => void order.push(who));
  await Promise.all([request("first"), request("second")]);
  expect(order).toEqual(["first", "second"]);
});
