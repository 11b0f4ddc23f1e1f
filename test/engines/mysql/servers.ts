import { type EngineServers, itself } from "../../servers/shared-server.js";
import { MARIADB_PROGRAM, startMariadb } from "./server.js";

export default {
  programs: [MARIADB_PROGRAM],
  start: { mariadb: async () => itself(await startMariadb()) },
} satisfies EngineServers;
