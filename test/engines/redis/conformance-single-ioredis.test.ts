import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { runner } from "../../support/runner.js";
import { redisHarness } from "./harness.js";

conformance(runner, redisHarness("single", "ioredis", await shared("redis")));
