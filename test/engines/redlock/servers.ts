import { type EngineServers, running } from "../../servers/shared-server.js";
import { addresses, REDIS_PROGRAM, startRedisServers } from "../redis/server.js";

export default {
  programs: [REDIS_PROGRAM],
  start: {
    redlock: async () => {
      const voters = await startRedisServers(5);
      return running({ ...voters, url: `redlock://${addresses(voters.nodes)}` }, voters.nodes);
    },
  },
} satisfies EngineServers;
