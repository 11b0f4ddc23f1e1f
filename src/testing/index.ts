export { type FaultProxy, type FaultProxyOptions, startFaultProxy } from "./faults.js";
