import { conformance } from "locktender/testing";
import { afterAll } from "vitest";
import { startEtcd } from "../servers/etcd.js";
import { etcdHarness } from "../support/etcd-harness.js";
import { runner } from "../support/runner.js";

const server = await startEtcd();
afterAll(() => server.stop());

conformance(runner, etcdHarness(server));
