export { StaleTokenError } from "../core/errors.js";
export { fence, fenceTable } from "./database.js";
export type {
  Dialect,
  Executor,
  PrismaTransaction,
  SyncTransaction,
  Transaction,
} from "./executor.js";
export type { Fenced, FenceOptions, FenceRefused } from "./fenced.js";
export {
  FENCING_TOKEN,
  type FencingTokenOptions,
  fencingToken,
  type RequestLike,
  type Sender,
} from "./header.js";
export {
  databaseStore,
  type FenceStore,
  fencedFetch,
  fenceProblem,
  type HttpFence,
  type HttpFenceOptions,
  httpFence,
  memoryStore,
  type Problem,
  redisStore,
} from "./http.js";
export {
  type FencedScript,
  fencedEval,
  fencedSet,
  fenceKey,
  type RedisFenceOptions,
  type RedisLike,
} from "./redis.js";
