import { conformance } from "locktender/testing";
import { shared } from "../servers/shared.js";
import { quorumHarness } from "../support/quorum-harness.js";
import { oneByOne } from "../support/runner.js";

conformance(oneByOne, await quorumHarness("ioredis", await shared("redlock")));
