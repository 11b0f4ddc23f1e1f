// Opens a Redis backend in a child process of the suite.
import { compiled } from "./compiled.mjs";

const { redis } = await compiled("backends/redis/index.js");

export default (options) => redis(options);
