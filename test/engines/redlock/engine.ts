import { redlock } from "locktender/redlock";
import { shared } from "../../servers/shared.js";
import { type EngineTests, NOWHERE } from "../../support/engine-tests.js";
import { hostsOf } from "../../support/hosts-of.js";
import { otherKinds } from "../../support/runner.js";
import { redisHarness } from "../redis/harness.js";
import { declareNew, quorumLacks } from "./harness.js";

/** Its own harness is made of servers that answer; what it lacks is known without them. */
const harness = (library: "ioredis" | "redis") => ({
  ...redisHarness("single", library, NOWHERE),
  engine: `a quorum of 5 by ${library}`,
  ...quorumLacks,
});

const model = (library: "ioredis" | "redis") => async () => {
  const { url } = await shared("redlock");
  const prefix = `model-${process.pid}-${library}`;
  const maxTtl = 300_000;
  const ports = hostsOf(url).map(({ port }) => port);
  await declareNew(ports, prefix, maxTtl);
  return redlock({ url, library, prefix, maxTtl });
};

export default {
  conformance: {
    "conformance-ioredis": harness("ioredis"),
    "conformance-node-redis": { ...harness("redis"), ...otherKinds("ioredis") },
  },
  model: { "a quorum by ioredis": model("ioredis"), "a quorum by node-redis": model("redis") },
} satisfies EngineTests;
