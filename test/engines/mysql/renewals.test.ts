import { renewalPromises } from "../databases/renewals.js";
import { DATABASE } from "./tools.js";

renewalPromises(DATABASE);
