import { type EngineServers, itself } from "../../servers/shared-server.js";
import { PGBOUNCER_PROGRAM, POSTGRES_PROGRAM, startPostgres } from "./server.js";

export default {
  programs: [POSTGRES_PROGRAM, PGBOUNCER_PROGRAM],
  start: { postgres: async () => itself(await startPostgres()) },
} satisfies EngineServers;
