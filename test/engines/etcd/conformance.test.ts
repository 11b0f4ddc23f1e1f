import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { everydayRunner } from "../../support/runner.js";
import { etcdHarness } from "./harness.js";

conformance(everydayRunner, etcdHarness(await shared("etcd")));
