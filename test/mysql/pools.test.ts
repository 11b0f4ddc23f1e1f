import { poolPromises } from "../databases/pools.js";
import { DATABASE } from "./tools.js";

poolPromises(DATABASE);
