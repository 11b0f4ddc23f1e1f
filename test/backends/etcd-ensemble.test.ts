import { conformance } from "locktender/testing";
import { afterAll } from "vitest";
import { startEtcd } from "../servers/etcd.js";
import { etcdHarness } from "../support/etcd-harness.js";
import { runner } from "../support/runner.js";

const ensemble = await startEtcd({ members: 3 });
afterAll(() => ensemble.stop());

conformance(runner, etcdHarness(ensemble));
