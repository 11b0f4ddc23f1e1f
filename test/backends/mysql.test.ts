import { conformance } from "locktender/testing";
import { inject } from "vitest";
import { mysqlHarness } from "../support/mysql-harness.js";
import { runner } from "../support/runner.js";

conformance(runner, mysqlHarness(inject("mariadb")));
