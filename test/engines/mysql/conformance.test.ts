import { conformance } from "locktender/testing";
import { runner } from "../../support/runner.js";
import { database } from "../databases/shared-database.js";
import { mysqlHarness } from "./harness.js";

conformance(runner, mysqlHarness(await database("mariadb")));
