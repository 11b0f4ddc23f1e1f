import { chosenEngines, ENGINE_NAMES, entryOf } from "../engines.js";
import { OPENSSL_PROGRAM } from "./certificates.js";
import { COMPILER_PROGRAMS } from "./clock.js";
import { IP_PROGRAM } from "./private-network.js";
import type { NeededProgram } from "./programs.js";
import { loadEngineServers } from "./shared-server.js";

const engines = chosenEngines();
const withServers = engines.filter((name) => entryOf(name).servers.length > 0);
// While this module is loaded: the matrix is loaded by a runner that loads nothing afterwards.
const own = (await Promise.all(withServers.map(loadEngineServers))).flatMap(({ programs }) => programs);

/** What the tests of the chosen engines need of this machine, also where another version of a server is tested. */
export const TEST_PROGRAMS: readonly NeededProgram[] =
  engines.length < ENGINE_NAMES.length ? own : [...own, OPENSSL_PROGRAM, IP_PROGRAM, ...COMPILER_PROGRAMS];
