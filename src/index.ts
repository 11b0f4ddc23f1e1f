export { type ConnectOptions, connect } from "./connect.js";
export * from "./core.js";
