import { conformance } from "locktender/testing";
import { shared } from "../servers/shared.js";
import { redisHarness } from "../support/redis-harness.js";
import { otherKinds, runner } from "../support/runner.js";

conformance(runner, {
  ...redisHarness("single", "redis", await shared("redis")),
  ...otherKinds("ioredis"),
});
