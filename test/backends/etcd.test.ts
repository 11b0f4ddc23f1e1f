import { conformance } from "locktender/testing";
import { inject } from "vitest";
import { etcdHarness } from "../support/etcd-harness.js";
import { runner } from "../support/runner.js";

conformance(runner, etcdHarness(inject("etcd")));
