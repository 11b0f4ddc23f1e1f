import type { EngineTests } from "../../support/engine-tests.js";
import { memoryHarness } from "./harness.js";

export default { conformance: { conformance: memoryHarness() }, model: {} } satisfies EngineTests;
