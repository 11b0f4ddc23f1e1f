import type { Backend } from "#lib/core/backend.js";
import { chosenEngines } from "../engines.js";
import { type EngineTests, fullHarness, loadEngineTests } from "../support/engine-tests.js";

const chosen = await Promise.all(chosenEngines().map(loadEngineTests));

function waysToOpen(
  isMeant: (tests: EngineTests) => boolean,
): Readonly<Record<string, () => Promise<Backend>>> {
  return Object.fromEntries(chosen.filter(isMeant).flatMap(({ model }) => Object.entries(model)));
}

const keepsQueue = (tests: EngineTests): boolean => fullHarness(tests).queue === undefined;

/** Those that keep a queue. A server is started when the first test opens one of its engines. */
export const engines = waysToOpen(keepsQueue);

/** Nodes of a quorum keep no queue, so only what is granted at once can be compared. */
export const quorums = waysToOpen((tests) => !keepsQueue(tests));
