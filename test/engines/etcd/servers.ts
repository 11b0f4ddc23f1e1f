import { type EngineServers, inNodes } from "../../servers/shared-server.js";
import { ETCD_PROGRAM, ETCDCTL_PROGRAM, startEtcd } from "./server.js";

export default {
  programs: [ETCD_PROGRAM, ETCDCTL_PROGRAM],
  start: {
    etcd: async () => inNodes(await startEtcd()),
    "etcd-ensemble": async () => inNodes(await startEtcd({ members: 3 })),
  },
} satisfies EngineServers;
