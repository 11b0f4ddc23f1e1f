export { conformance } from "./conformance.js";
export { type FaultProxy, type FaultProxyOptions, startFaultProxy } from "./faults.js";
export type { BackendFactory, Harness, ProxiedBackend, Runner, WorkerBackend } from "./harness.js";
