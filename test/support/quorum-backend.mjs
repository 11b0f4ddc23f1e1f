// Opens a quorum of Redis servers in a child process of the suite.
import { compiled } from "./compiled.mjs";

const { redlock } = await compiled("backends/quorum/index.js");

export default (options) => redlock(options);
