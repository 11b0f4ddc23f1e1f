import { conformance } from "locktender/testing";
import { runner } from "../../support/runner.js";
import { database } from "../databases/shared-database.js";
import { postgresHarness } from "./harness.js";

conformance(runner, postgresHarness(await database("postgres")));
