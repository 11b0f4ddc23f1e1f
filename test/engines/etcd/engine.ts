import { etcd } from "locktender/etcd";
import { shared } from "../../servers/shared.js";
import { type EngineTests, NOWHERE } from "../../support/engine-tests.js";
import { otherKinds } from "../../support/runner.js";
import { etcdHarness } from "./harness.js";

const THREE = { url: "none://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3" };

const model = (server: "etcd" | "etcd-ensemble") => async () =>
  etcd({ url: (await shared(server)).url, prefix: `model-${process.pid}` });

export default {
  conformance: {
    conformance: etcdHarness(NOWHERE),
    "conformance-ensemble": { ...etcdHarness(THREE), ...otherKinds("a single server") },
  },
  model: { etcd: model("etcd"), "an etcd ensemble": model("etcd-ensemble") },
} satisfies EngineTests;
