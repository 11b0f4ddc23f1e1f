import { conformance } from "locktender/testing";
import { database } from "../support/database.js";
import { postgresHarness } from "../support/postgres-harness.js";
import { runner } from "../support/runner.js";

conformance(runner, postgresHarness(await database("postgres")));
