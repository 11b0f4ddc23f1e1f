import { conformance } from "locktender/testing";
import { inject } from "vitest";
import { postgresHarness } from "../support/postgres-harness.js";
import { runner } from "../support/runner.js";

conformance(runner, postgresHarness(inject("postgres")));
