import type { Harness } from "locktender/testing";
import type { Backend } from "#lib/core/backend.js";
import type { EngineName } from "../engines.js";

/** What an engine has for the tests of all engines: the default export of test/engines/<name>/engine.ts. */
export interface EngineTests {
  /**
   * What its conformance files run the suite with, by the names of these files. The first one shows all kinds of locks.
   * Nothing is connected to: what the suite would run counts.
   */
  readonly conformance: Readonly<Record<string, Harness>>;
  /** The ways to open it whose answers are compared with those of memory. A server is asked for when one is opened. */
  readonly model: Readonly<Record<string, () => Promise<Backend>>>;
}

/** In place of a server, for a harness that is only looked at. */
export const NOWHERE = { url: "none://127.0.0.1:1/none", host: "127.0.0.1", port: 1, nodes: [] };

export async function loadEngineTests(name: EngineName): Promise<EngineTests> {
  return ((await import(`../engines/${name}/engine.ts`)) as { default: EngineTests }).default;
}

/** The harness that shows all kinds of locks. */
export function fullHarness({ conformance }: EngineTests): Harness {
  const [first] = Object.values(conformance);
  if (first === undefined) throw new Error("an engine has at least one conformance file");
  return first;
}
