import { conformance } from "locktender/testing";
import { database } from "../support/database.js";
import { mysqlHarness } from "../support/mysql-harness.js";
import { runner } from "../support/runner.js";

conformance(runner, mysqlHarness(await database("mariadb")));
