export type { AnyLease } from "./core/any-lease.js";
export type { Backend, Guarantees, Traits } from "./core/backend.js";
export type { ClaimView, DeadlockStep, Owner, ResourceView } from "./core/claim.js";
export type { Duration } from "./core/duration.js";
export {
  CapacityMismatchError,
  isLockError,
  LeaseLostError,
  LockError,
  type LockErrorCode,
  LockTimeoutError,
  type Loss,
  StaleTokenError,
} from "./core/errors.js";
export type { LockEvent, LockEventListener, LockKind } from "./core/events.js";
export type { Lease, SharedLease } from "./core/lease.js";
export type { LockName } from "./core/names.js";
export type { AcquireOptions, TryOptions } from "./core/options.js";
export type { AllLease } from "./locks/all.js";
export type { Cell, CellUpdateOptions, CellWrite, CellWriteOptions, Versioned } from "./locks/cell.js";
export type { CloseOptions, CloseSignal } from "./locks/close.js";
export type { Election, LeadOptions, ObserveOptions } from "./locks/election.js";
export type { ForceReleaseOptions } from "./locks/force-release.js";
export type { Callback, Lockable, TryRun } from "./locks/lockable.js";
export { createLocks, Locks } from "./locks/locks.js";
export type { LocksOptions } from "./locks/locks-options.js";
export type { LockOptions, Mutex, MutexOptions, ReadWriteLock } from "./locks/mutex.js";
export { type Once, OnceError, type OnceOptions } from "./locks/once.js";
export type { PermitOptions, ResizeOptions, Semaphore, SemaphoreOptions } from "./locks/semaphore.js";
export type {
  WebLock,
  WebLockCallback,
  WebLockInfo,
  WebLockMode,
  WebLockOptions,
  WebLocks,
} from "./locks/web-locks.js";
