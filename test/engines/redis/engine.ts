import { redis } from "locktender/redis";
import { shared } from "../../servers/shared.js";
import { type EngineTests, NOWHERE } from "../../support/engine-tests.js";
import { otherKinds } from "../../support/runner.js";
import { redisHarness } from "./harness.js";

const model = (server: "redis" | "redis-cluster", library: "ioredis" | "redis") => async () =>
  redis({ url: (await shared(server)).url, library, prefix: `model-${process.pid}-${library}` });

export default {
  conformance: {
    "conformance-single-ioredis": redisHarness("single", "ioredis", NOWHERE),
    "conformance-single-node-redis": {
      ...redisHarness("single", "redis", NOWHERE),
      ...otherKinds("ioredis"),
    },
    "conformance-cluster-ioredis": {
      ...redisHarness("cluster", "ioredis", NOWHERE),
      disguises: { skip: "the same scripts, as shown by a single server" },
    },
    "conformance-cluster-node-redis": {
      ...redisHarness("cluster", "redis", NOWHERE),
      ...otherKinds("ioredis"),
    },
    "conformance-sentinel-ioredis": {
      ...redisHarness("sentinel", "ioredis", { ...NOWHERE, nodes: [NOWHERE] }),
      ...otherKinds("a single server"),
    },
    "conformance-sentinel-node-redis": {
      ...redisHarness("sentinel", "redis", { ...NOWHERE, nodes: [NOWHERE] }),
      ...otherKinds("a single server"),
    },
  },
  model: {
    "redis by ioredis": model("redis", "ioredis"),
    "redis by node-redis": model("redis", "redis"),
    "a redis cluster": model("redis-cluster", "ioredis"),
  },
} satisfies EngineTests;
