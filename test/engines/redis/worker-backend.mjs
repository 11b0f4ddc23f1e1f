// Opens a Redis backend in a child process of the suite.
import { compiled } from "../../support/compiled.mjs";

const { redis } = await compiled("backends/redis/index.js");

export default (options) => redis(options);
