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
export { fencedFetch } from "./fetch.js";
export {
  FENCING_TOKEN,
  type FencingTokenOptions,
  fencingToken,
  type RequestLike,
  type Sender,
} from "./header.js";
export { type HttpFence, type HttpFenceOptions, httpFence } from "./http.js";
export { fenceProblem, type Problem } from "./problem.js";
export {
  type FencedScript,
  fencedEval,
  fencedSet,
  fenceKey,
  type RedisFenceOptions,
  type RedisLike,
} from "./redis.js";
export { databaseStore, type FenceStore, memoryStore, redisStore } from "./store.js";
