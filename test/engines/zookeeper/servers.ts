import { type EngineServers, inNodes } from "../../servers/shared-server.js";
import { CURATOR_PROGRAMS, startZooKeeper, ZOOKEEPER_PROGRAMS } from "./server.js";

export default {
  programs: [...ZOOKEEPER_PROGRAMS, ...CURATOR_PROGRAMS],
  start: {
    zookeeper: async () => inNodes(await startZooKeeper()),
    "zookeeper-ensemble": async () => inNodes(await startZooKeeper({ members: 3 })),
  },
} satisfies EngineServers;
