import { conformance } from "locktender/testing";
import { shared } from "../../servers/shared.js";
import { oneByOne } from "../../support/runner.js";
import { quorumHarness } from "./harness.js";

conformance(oneByOne, await quorumHarness("ioredis", await shared("redlock")));
