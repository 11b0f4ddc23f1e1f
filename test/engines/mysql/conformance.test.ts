import { conformance } from "locktender/testing";
import { everydayRunner } from "../../support/runner.js";
import { database } from "../databases/shared-database.js";
import { mysqlHarness } from "./harness.js";

conformance(everydayRunner, mysqlHarness(await database("mariadb")));
