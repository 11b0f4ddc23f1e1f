// What the child processes of these tests have in common.
import { compiled } from "../../support/compiled.mjs";

export const { sqlite } = await compiled("backends/sqlite/index.js");

/** A mutex' claim, but for its name and id. */
export const ask = {
  weight: 1,
  capacity: 1,
  ttlMs: 10_000,
  fixed: false,
  minHoldMs: 0,
  queue: true,
  owner: { instance: "child", host: "here", pid: process.pid },
  note: "",
};
