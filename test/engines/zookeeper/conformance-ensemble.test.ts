import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { otherKinds, runner } from "../../support/runner.js";
import { zookeeperHarness } from "./harness.js";

conformance(runner, {
  ...zookeeperHarness(await shared("zookeeper-ensemble")),
  ...otherKinds("a single server"),
});
