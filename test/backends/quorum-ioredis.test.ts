import { conformance } from "locktender/testing";
import { shared } from "../servers/shared.js";
import { quorumHarness } from "../support/quorum-harness.js";
import { runner } from "../support/runner.js";

conformance(runner, await quorumHarness("ioredis", await shared("redlock")));
