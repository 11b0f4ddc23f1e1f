import { describe, expect, test } from "vitest";
import { readClaims } from "#lib/backends/zookeeper/keys.js";
import { aheadOf } from "#lib/backends/zookeeper/queue-view.js";

const node = (id: string, sequence: number) => `_c_${id}-1of1-lock-${`${sequence}`.padStart(10, "0")}`;
const nodes = (claims: readonly { readonly node: string }[] | undefined) =>
  claims?.map((claim) => claim.node);

describe("the claims ahead of a claim", () => {
  const all = [node("a", 1), node("b", 2), node("c", 3), node("b", 4), node("d", 5)];
  const line = readClaims(all);

  test("all claims that came earlier", () => {
    const found = aheadOf(line, { id: "c", node: node("c", 3) });
    expect(nodes(found?.ahead)).toEqual(all.slice(0, 2));
    expect(found?.orphans).toEqual([]);
  });

  test("but not what an earlier session has made of the same claim", () => {
    const found = aheadOf(line, { id: "b", node: node("b", 4) });
    expect(nodes(found?.ahead)).toEqual([node("a", 1), node("c", 3)]);
    expect(nodes(found?.orphans)).toEqual([node("b", 2)]);
  });

  test("unknown, if the claim is not in the queue", () => {
    expect(aheadOf(line, { id: "e", node: node("e", 6) })).toBe(undefined);
    expect(aheadOf(line, { id: "b", node: node("b", 7) })).toBe(undefined);
  });

  test("twenty thousand of one process find their places in a moment", () => {
    const long = readClaims(Array.from({ length: 20_000 }, (_, index) => node(`n${index}`, index)));
    const start = process.cpuUsage();
    for (const claim of long) aheadOf(long, claim);
    // One by one from the beginning of the line it takes several times as long.
    expect(process.cpuUsage(start).user / 1_000).toBeLessThan(2_000);
  });
});
