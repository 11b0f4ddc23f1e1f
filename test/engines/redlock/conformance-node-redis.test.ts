import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { oneByOne, otherKinds } from "../../support/runner.js";
import { quorumHarness } from "./harness.js";

conformance(oneByOne, {
  ...(await quorumHarness("redis", await shared("redlock"))),
  ...otherKinds("ioredis"),
});
