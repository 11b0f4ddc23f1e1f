import { expect, onTestFinished, test } from "vitest";
import type { WorkerBackend } from "#lib/testing/index.js";
import { crash, startPostgres } from "../engines/postgres/server.js";
import type { Stoppable } from "../servers/server-process.js";
import { startAddress } from "./address.js";
import { expectThroughFailovers } from "./harness.js";
import * as mysql from "./mysql-servers.js";
import * as postgres from "./postgres-servers.js";

interface NewServer extends Stoppable {
  readonly url: string;
  readonly port: number;
}

interface Engine<Server extends NewServer> {
  readonly start: () => Promise<Server>;
  readonly crash: (server: Server) => Promise<void>;
  readonly versionOf: (url: string) => Promise<string>;
  readonly backendAt: (port: number) => WorkerBackend;
}

/** The server is killed, and an empty one takes its place: it has not even our tables. */
async function expectTablesToBeMade<Server extends NewServer>(engine: Engine<Server>): Promise<void> {
  const start = async () => {
    const server = await engine.start();
    onTestFinished(() => server.stop());
    return server;
  };
  let server = await start();
  let next = server;
  const address = await startAddress(server.port);
  onTestFinished(() => address.stop());
  const { errors } = await expectThroughFailovers({
    setup: "an empty server takes over",
    promised: { overlaps: "possible" },
    server: await engine.versionOf(server.url),
    backend: engine.backendAt(address.port),
    failovers: 2,
    prepare: async () => {
      next = await start();
    },
    failOver: async () => {
      await engine.crash(server);
      server = next;
      address.moveTo(server.port);
    },
  });
  const missing = Object.keys(errors).filter((message) => /exist/.test(message));
  expect(missing, "errors about tables that are not there").toEqual([]);
}

test("PostgreSQL, an empty server takes over: the tables are made, and no caller sees that they were missing", () =>
  expectTablesToBeMade({ start: () => startPostgres(), crash, ...postgres }));

test(`${mysql.PRODUCT}, an empty server takes over: the tables are made, and no caller sees that they were missing`, () =>
  expectTablesToBeMade({
    start: () => mysql.startServer(),
    crash: (server) => server.process.kill(),
    ...mysql,
  }));
