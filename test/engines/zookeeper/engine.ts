import { zookeeper } from "locktender/zookeeper";
import { shared } from "../../servers/shared.js";
import { type EngineTests, NOWHERE } from "../../support/engine-tests.js";
import { otherKinds } from "../../support/runner.js";
import { zookeeperHarness } from "./harness.js";

const THREE = { url: "none://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3" };

const model = (server: "zookeeper" | "zookeeper-ensemble") => async () =>
  zookeeper({ url: (await shared(server)).url, prefix: `model-${process.pid}` });

export default {
  conformance: {
    conformance: zookeeperHarness(NOWHERE),
    "conformance-ensemble": { ...zookeeperHarness(THREE), ...otherKinds("a single server") },
  },
  model: { zookeeper: model("zookeeper"), "a zookeeper ensemble": model("zookeeper-ensemble") },
} satisfies EngineTests;
