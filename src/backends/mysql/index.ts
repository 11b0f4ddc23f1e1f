import type { Backend } from "../../core/backend.js";
export function mysql(_options: { url?: string; prefix?: string } = {}): Backend {
  throw new Error("not yet");
}
