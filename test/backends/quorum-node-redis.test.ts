import { conformance } from "locktender/testing";
import { shared } from "../servers/shared.js";
import { quorumHarness } from "../support/quorum-harness.js";
import { oneByOne, otherKinds } from "../support/runner.js";

conformance(oneByOne, {
  ...(await quorumHarness("redis", await shared("redlock"))),
  ...otherKinds("ioredis"),
});
