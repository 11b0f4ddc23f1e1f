import { mysql } from "locktender/mysql";
import { shared } from "../../servers/shared.js";
import { type EngineTests, NOWHERE } from "../../support/engine-tests.js";
import { mysqlHarness } from "./harness.js";

export default {
  conformance: { conformance: mysqlHarness(NOWHERE) },
  model: {
    mariadb: async () => mysql({ url: (await shared("mariadb")).url, prefix: `model_${process.pid}` }),
  },
} satisfies EngineTests;
