import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { otherKinds, runner } from "../../support/runner.js";
import { etcdHarness } from "./harness.js";

conformance(runner, { ...etcdHarness(await shared("etcd-ensemble")), ...otherKinds("a single server") });
