import { conformance } from "locktender/testing";
import { shared } from "../servers/shared.js";
import { etcdHarness } from "../support/etcd-harness.js";
import { otherKinds, runner } from "../support/runner.js";

conformance(runner, { ...etcdHarness(await shared("etcd-ensemble")), ...otherKinds("a single server") });
