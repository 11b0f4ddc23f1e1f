import { type EngineServers, running } from "../../servers/shared-server.js";
import { REDIS_PROGRAM, startRedisCluster, startRedisSentinel, startRedisSingle } from "./server.js";

export default {
  programs: [REDIS_PROGRAM],
  start: {
    redis: async () => {
      const redis = await startRedisSingle();
      return running(redis, [redis.node]);
    },
    "redis-cluster": async () => {
      const redis = await startRedisCluster();
      return running(redis, redis.nodes);
    },
    "redis-sentinel": async () => {
      const redis = await startRedisSentinel();
      return running(redis, [redis.master, ...redis.replicas], redis.sentinels);
    },
  },
} satisfies EngineServers;
