import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { everydayRunner } from "../../support/runner.js";
import { zookeeperHarness } from "./harness.js";

conformance(everydayRunner, zookeeperHarness(await shared("zookeeper")));
