// Opens a PostgreSQL backend in a child process of the suite.
import { compiled } from "../../support/compiled.mjs";

const { postgres } = await compiled("backends/postgres/index.js");

export default (options) => postgres(options);
