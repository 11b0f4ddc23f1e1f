import { conformance } from "locktender/testing";
import { afterAll } from "vitest";
import { startZooKeeper } from "../servers/zookeeper.js";
import { runner } from "../support/runner.js";
import { zookeeperHarness } from "../support/zookeeper-harness.js";

const server = await startZooKeeper();
afterAll(() => server.stop());

conformance(runner, zookeeperHarness(server));
