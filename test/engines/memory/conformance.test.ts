import { conformance } from "locktender/testing";
import { runner } from "../../support/runner.js";
import { memoryHarness } from "./harness.js";

conformance(runner, memoryHarness());
