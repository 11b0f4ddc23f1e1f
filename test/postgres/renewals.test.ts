import { expect, test } from "vitest";
import { renewalPromises, SHORT_MS, slowRenewal } from "../databases/renewals.js";
import { backend, DATABASE, eventually, newPrefix, request } from "./tools.js";

renewalPromises(DATABASE);

const renewSlowly = slowRenewal(DATABASE);

test("who asks lets in somebody ahead that is just being renewed, and does not wait for it", async () => {
  const prefix = newPrefix();
  const one = backend({ prefix });
  const [held, next, asking] = [request("a", { ttlMs: SHORT_MS }), request("a"), request("a")];
  await one.claim(held);
  const news: unknown[] = [];
  one.watch(next, (told) => news.push(told));
  const { ticket: rung } = (await one.claim(next)) as { ticket: bigint };
  await eventually("it listens", 2_000, () => news.length > 0);
  const { ticket } = (await one.claim(asking)) as { ticket: bigint };
  const finish = await renewSlowly(prefix, next.id);
  expect((await one.claim({ ...asking, ticket })).state).toBe("waiting");
  await eventually("it is told", 2_000, () => news.length > 1);
  expect(news.at(-1)).toEqual({ state: "granted", ticket: rung });
  await finish();
});
