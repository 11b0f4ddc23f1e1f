export { StaleTokenError } from "../core/errors.js";
export type {
  Dialect,
  Executor,
  PrismaTransaction,
  SyncTransaction,
  Transaction,
} from "./executor.js";
export type { Fenced, FenceOptions, FenceRefused } from "./fence.js";
export { fence, fenceTable } from "./fence.js";
export {
  databaseStore,
  FENCING_TOKEN,
  type FenceStore,
  type FencingTokenOptions,
  fencedFetch,
  fenceProblem,
  fencingToken,
  type HttpFence,
  type HttpFenceOptions,
  httpFence,
  memoryStore,
  type Problem,
  type RequestLike,
  redisStore,
  type Sender,
} from "./http.js";
export {
  type FencedScript,
  fencedEval,
  fencedSet,
  fenceKey,
  type RedisFenceOptions,
  type RedisLike,
} from "./redis.js";
