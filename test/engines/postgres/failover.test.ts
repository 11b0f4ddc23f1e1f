import { failoverPromises } from "../databases/failover.js";
import { DATABASE } from "./tools.js";

failoverPromises(DATABASE);
