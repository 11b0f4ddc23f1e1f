/**
 * What engines are made of, for an engine of your own. Unstable: it may change in any release. docs/engine-kit.md
 * @module
 */
export type {
  Answer,
  Backend,
  CellChange,
  CellStore,
  ClaimRecord,
  ClaimRequest,
  Ending,
  Force,
  Gone,
  Notification,
  Notify,
  Renewal,
  RenewRequest,
  ResourceRecord,
  StoredCell,
  Traits,
  Unwatch,
} from "../core/backend.js";
export { admit, tokenOf, WHOLE, worthWatching } from "../core/claim.js";
export { nowMs } from "../core/clock.js";
export { FifoMutex, FreshFlight, SingleFlight } from "../core/concurrency.js";
export { backendError, invalidOption, LockError } from "../core/errors.js";
export { plainText } from "../core/plain-text.js";
export { startInterval, startTimer, stopTimer, yieldTurn } from "../core/timer.js";
export {
  FLOOR_BOUND_US,
  Queue,
  type Stepped,
  type StoredClaim,
  TicketFloor,
  type ToNotify,
} from "./queue.js";
export {
  bitIn,
  countIn,
  forceIn,
  forceText,
  listIn,
  MetadataText,
  metadataOf,
  numberIn,
  parsed,
  parseForce,
  readMetadata,
  type StoredMetadata,
  textIn,
  ticketIn,
  unlike,
} from "./replies.js";
export { AnswerTimer, Backoff, RequestTimeout } from "./request-timeout.js";
export { readTls, socketTls, TLS_PARAMETERS, type TlsOptions, type TlsSettings } from "./tls.js";
export { describeHosts, parseAddress } from "./url.js";
