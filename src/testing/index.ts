/**
 * `createTestLocks` and `startFaultProxy` are stable. Everything else here is unstable: it may change in any release.
 * @module
 */
export { conformance } from "./conformance.js";
export { type FaultProxy, type FaultProxyOptions, startFaultProxy } from "./faults.js";
export type { BackendFactory, Harness, ProxiedBackend, Runner, WorkerBackend } from "./harness.js";
export { checkHistory, type Operation, type Violation } from "./history.js";
export { describeHistory } from "./history-describe.js";
export { type HistoryPlan, type RecordedHistory, recordHistory } from "./history-run.js";
export { createTestLocks, type TestClock, type TestLocks } from "./test-locks.js";
