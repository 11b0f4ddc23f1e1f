import { conformance } from "locktender/testing";
import { afterAll } from "vitest";
import { startZooKeeper } from "../servers/zookeeper.js";
import { runner } from "../support/runner.js";
import { zookeeperHarness } from "../support/zookeeper-harness.js";

const ensemble = await startZooKeeper({ members: 3 });
afterAll(() => ensemble.stop());

conformance(runner, zookeeperHarness(ensemble));
