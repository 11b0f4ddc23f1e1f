// Opens a quorum of Redis servers in a child process of the suite.
import { compiled } from "../../support/compiled.mjs";

/** An earlier build, which contends with this one for the same locks, has it under another name. */
const { redlock } = await compiled("backends/redlock/index.js").catch((error) => {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
  return compiled("backends/quorum/index.js");
});

export default (options) => redlock(options);
