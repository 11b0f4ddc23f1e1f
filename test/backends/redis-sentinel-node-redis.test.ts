import { conformance } from "locktender/testing";
import { inject } from "vitest";
import { redisHarness } from "../support/redis-harness.js";
import { runner } from "../support/runner.js";

conformance(runner, redisHarness("sentinel", "redis", inject("redisSentinel")));
