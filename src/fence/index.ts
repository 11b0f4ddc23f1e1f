export { StaleTokenError } from "../core/errors.js";
export type {
  Dialect,
  Executor,
  PrismaTransaction,
  SyncTransaction,
  Transaction,
} from "./clients.js";
export { fence, fenceTable } from "./database.js";
export type { Fenced, FenceOptions, FenceRefused } from "./fenced.js";
export {
  FENCING_TOKEN,
  type FencingTokenOptions,
  fencingToken,
  type RequestLike,
  type Sender,
} from "./header.js";
export {
  fencedFetch,
  fenceProblem,
  type HttpFence,
  type HttpFenceOptions,
  httpFence,
  type Problem,
} from "./http.js";
export {
  type FencedScript,
  fencedEval,
  fencedSet,
  fenceKey,
  type RedisFenceOptions,
  type RedisLike,
} from "./redis.js";
export { databaseStore, type FenceStore, memoryStore, redisStore } from "./store.js";
