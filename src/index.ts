export { type ConnectOptions, connect, type EngineOptions, type EngineOptionsOf } from "./connect.js";
export * from "./core.js";
