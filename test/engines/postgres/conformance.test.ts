import { conformance } from "locktender/testing";
import { everydayRunner } from "../../support/runner.js";
import { database } from "../databases/shared-database.js";
import { postgresHarness } from "./harness.js";

conformance(everydayRunner, postgresHarness(await database("postgres")));
