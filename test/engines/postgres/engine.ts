import { postgres } from "locktender/postgres";
import { shared } from "../../servers/shared.js";
import { type EngineTests, NOWHERE } from "../../support/engine-tests.js";
import { postgresHarness } from "./harness.js";

export default {
  conformance: { conformance: postgresHarness(NOWHERE) },
  model: {
    postgres: async () => postgres({ url: (await shared("postgres")).url, prefix: `model_${process.pid}` }),
  },
} satisfies EngineTests;
