import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { inspect } from "node:util";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { createLocks } from "locktender";
import { etcd } from "locktender/etcd";
import { mysql } from "locktender/mysql";
import { postgres } from "locktender/postgres";
import { redis } from "locktender/redis";
import { redlock } from "locktender/redlock";
import { describe, expect, onTestFinished, test } from "vitest";
import { loadLibrary } from "#lib/backends/etcd/library.js";
import type { Backend } from "#lib/core/backend.js";

// A server that refuses everything, in words that are made for the terminal of an administrator who reads the log.

const ATTACK = "no\u001b]0;owned\u0007\u001b[2K\nlocktender: all is well\u202e \u009b31m ";
const RAW = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

async function serve(talk: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    talk(socket);
  });
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
}

/** It lets clients in, and refuses scripts. */
const refusingRedis = (text: string) =>
  serve((socket) =>
    socket.on("data", (bytes) => {
      for (const [, command = ""] of bytes.toString().matchAll(/\*\d+\r\n\$\d+\r\n(\w+)\r\n/g)) {
        if (/^eval/i.test(command)) socket.write(`-ERR ${text}\r\n`);
        else if (/^hello$/i.test(command)) socket.write("%0\r\n");
        else socket.write(/^info$/i.test(command) ? "$0\r\n\r\n" : "+OK\r\n");
      }
    }),
  );

/** An ErrorResponse: each field with its letter, ended by a zero. */
function postgresError(text: string): Buffer {
  const body = Buffer.from(`SERROR\0VERROR\0CXX000\0M${text}\0\0`);
  const head = Buffer.alloc(5);
  head.write("E");
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** An ERR packet in place of a greeting. */
function mysqlError(text: string): Buffer {
  const body = Buffer.concat([Buffer.from([0xff, 0x10, 0x04]), Buffer.from(text)]);
  const head = Buffer.alloc(4);
  head.writeUIntLE(body.length, 0, 3);
  return Buffer.concat([head, body]);
}

async function refusingEtcd(text: string): Promise<number> {
  const { services } = await loadLibrary();
  const server = new Server();
  const refuse = (_: unknown, done: (error: object) => void) => done({ code: 9, details: text });
  for (const name of ["KV", "Lease"] as const) {
    const methods = Object.keys(services[name]).map((method) => [method, refuse]);
    server.addService(services[name] as never, Object.fromEntries(methods) as never);
  }
  onTestFinished(() => server.forceShutdown());
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error),
    );
  });
}

const ENGINES: Readonly<Record<string, (text: string) => Promise<Backend>>> = {
  "redis by ioredis": async (text) =>
    redis({ url: `redis://127.0.0.1:${await refusingRedis(text)}`, library: "ioredis", timeout: "20s" }),
  "redis by node-redis": async (text) =>
    redis({ url: `redis://127.0.0.1:${await refusingRedis(text)}`, library: "redis", timeout: "20s" }),
  redlock: async (text) => {
    const ports = await Promise.all([1, 2, 3].map(() => refusingRedis(text)));
    return redlock({
      url: `redlock://${ports.map((port) => `127.0.0.1:${port}`).join(",")}`,
      timeout: "20s",
    });
  },
  postgres: async (text) => {
    const port = await serve((socket) => socket.once("data", () => socket.end(postgresError(text))));
    return postgres({ url: `postgres://u:p@127.0.0.1:${port}/db` });
  },
  mysql: async (text) => {
    const port = await serve((socket) => socket.end(mysqlError(text)));
    return mysql({ url: `mysql://u:p@127.0.0.1:${port}/db` });
  },
  etcd: async (text) => etcd({ url: `etcd://127.0.0.1:${await refusingEtcd(text)}` }),
};

/** Headers of HTTP/2, in which etcd's errors come, are far shorter. */
const LONGEST: Readonly<Record<string, number>> = { etcd: 4_000 };

describe.each(Object.entries(ENGINES))("%s", (engine, open) => {
  test("what a server says is told on one line, bounded, and with nothing that a terminal acts on", async () => {
    const text = ATTACK + "x".repeat(LONGEST[engine] ?? 5_000_000);
    const locks = createLocks(await open(text), { ttl: "2s" });
    onTestFinished(() => locks.close({ drain: 0, abort: 0 }));
    const error = await locks
      .mutex("a")
      .tryAcquire()
      .catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ code: "backend" });
    const { message, cause } = error as Error;
    expect(message).not.toMatch(RAW);
    expect(message).toContain("no\\u001b]0;owned");
    expect(message.length).toBeLessThan(10_000);
    // What the server said is still there for a caller that looks for it.
    expect(inspect(cause, { maxStringLength: 100, depth: 3 }).length).toBeGreaterThan(10);
  });
});
