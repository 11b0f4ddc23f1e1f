/**
 * What engines are made of, for an engine of your own. Unstable: it may change in any release. docs/engine-kit.md
 * @module
 */
export type {
  Answer,
  Backend,
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
  Traits,
  Unwatch,
} from "../core/backend.js";
export type { CellChange, CellStore, StoredCell } from "../core/cells.js";
export { admit, tokenOf, WHOLE, worthWatching } from "../core/claim.js";
export { nowMs } from "../core/clock.js";
export { backendError, invalidOption, LockError } from "../core/errors.js";
export { plainText } from "../core/plain-text.js";
export { FreshFlight, SingleFlight } from "../core/single-flight.js";
export { startInterval, startTimer, stopTimer } from "../core/timer.js";
export { describeHosts, parseAddress } from "./address.js";
export { AnswerTimer } from "./answer-timer.js";
export { Backoff } from "./backoff.js";
export { type ClaimMetadata, noteIn, ownerIn, parsed, readMetadata } from "./claim-metadata.js";
export { forceIn, forceText, parseForce } from "./force-notice.js";
export { Queue, type Stepped, type StoredClaim, type ToNotify } from "./queue.js";
export { bitIn, countIn, listIn, numberIn, textIn, ticketIn, unlike } from "./reply.js";
export { RequestTimeout } from "./request-timeout.js";
export { TicketFloor } from "./ticket-floor.js";
export { readTls, socketTls, TLS_PARAMETERS, type TlsOptions, type TlsSettings } from "./tls.js";
export { yieldTurn } from "./yield-turn.js";
