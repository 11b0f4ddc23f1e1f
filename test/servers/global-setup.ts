import type { TestProject } from "vitest/node";
import { startHost } from "./host.js";
import { ensurePrograms } from "./programs.js";
import { TEST_PROGRAMS } from "./test-programs.js";

declare module "vitest" {
  interface ProvidedContext {
    /** Where the shared servers are asked for. */
    servers: string;
  }
}

/** A run inside a run, as for planted bugs, uses the servers of the outer one. */
export const HOST_VARIABLE = "LOCKTENDER_TEST_SERVERS";

/**
 * Makes the servers available that all tests share. No handler for signals is needed here: a run that is
 * interrupted without its teardown leaves no server behind, since each of them ends with this process
 * (ServerProcess).
 */
export default async function setup(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const outer = process.env[HOST_VARIABLE];
  if (outer) {
    project.provide("servers", outer);
    return undefined;
  }
  // Here and not only where they are used: the tests run side by side, and only one of them could install.
  await ensurePrograms(TEST_PROGRAMS);
  const host = await startHost();
  project.provide("servers", host.url);
  return () => host.stop();
}
