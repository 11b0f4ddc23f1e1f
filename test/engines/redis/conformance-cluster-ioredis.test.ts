import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { runner } from "../../support/runner.js";
import { redisHarness } from "./harness.js";

conformance(runner, {
  ...redisHarness("cluster", "ioredis", await shared("redis-cluster")),
  disguises: { skip: "the same scripts, as shown by a single server" },
});
