import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { runner } from "../../support/runner.js";
import { etcdHarness } from "./harness.js";

conformance(runner, etcdHarness(await shared("etcd")));
