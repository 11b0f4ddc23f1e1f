// Opens a MySQL backend in a child process of the suite.
import { compiled } from "../../support/compiled.mjs";

const { mysql } = await compiled("backends/mysql/index.js");

export default (options) => mysql(options);
