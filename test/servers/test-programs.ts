import { chosenEngines, ENGINE_NAMES, entryOf } from "../engines.js";
import { OPENSSL_PROGRAM } from "./certificates.js";
import { COMPILER_PROGRAMS } from "./clock.js";
import { IP_PROGRAM } from "./private-network.js";
import type { NeededProgram } from "./programs.js";
import { loadEngineServers } from "./shared-server.js";

/** What the tests of the chosen engines need of this machine, also where another version of a server is tested. */
export async function testPrograms(): Promise<readonly NeededProgram[]> {
  const engines = chosenEngines();
  const servers = engines.filter((name) => entryOf(name).servers.length > 0).map(loadEngineServers);
  const own = (await Promise.all(servers)).flatMap(({ programs }) => programs);
  return engines.length < ENGINE_NAMES.length
    ? own
    : [...own, OPENSSL_PROGRAM, IP_PROGRAM, ...COMPILER_PROGRAMS];
}
