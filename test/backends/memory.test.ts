import { conformance } from "locktender/testing";
import { memoryHarness } from "../support/memory-harness.js";
import { runner } from "../support/runner.js";

conformance(runner, memoryHarness());
