import { conformance } from "locktender/testing";
import { afterAll } from "vitest";
import { startRedisServers } from "../servers/redis.js";
import { quorumHarness } from "../support/quorum-harness.js";
import { runner } from "../support/runner.js";

const servers = await startRedisServers(5);
afterAll(() => servers.stop());

conformance(runner, await quorumHarness("ioredis", servers.ports));
