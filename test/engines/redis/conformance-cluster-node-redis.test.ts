import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { otherKinds, runner } from "../../support/runner.js";
import { redisHarness } from "./harness.js";

conformance(runner, {
  ...redisHarness("cluster", "redis", await shared("redis-cluster")),
  ...otherKinds("ioredis"),
});
