import { fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { on, once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "libsql";
import { connect, type Lease } from "locktender";
import { fenceProblem, fenceTable, httpFence } from "locktender/fence";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { shared } from "../servers/shared.js";
import { freshDatabaseWith } from "./servers.js";

const TTL = "1500ms";
const PAPER = "CREATE TABLE paper (name VARCHAR(100) PRIMARY KEY, line VARCHAR(100))";
const KINDS = ["postgres", "mysql", "sqlite", "redis", "http"] as const;
type Kind = (typeof KINDS)[number];

interface Resource {
  write(lease: Pick<Lease, "name" | "token">, line: string, pause: () => Promise<void>): Promise<void>;
  read(name: string): Promise<string>;
  close(): Promise<void>;
}

interface Done {
  readonly code: string;
  readonly loss?: string;
  readonly highest?: string;
}

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "locktender-fence-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const address = (module: string) => new URL(module, import.meta.url);
const blank = (name: string) => `INSERT INTO paper VALUES ('${name}', '')`;

/** Somewhere to write to. */
async function prepared(kind: Kind, name: string): Promise<string> {
  if (kind === "redis") return (await shared("redis")).url;
  if (kind === "http") return service();
  if (kind !== "sqlite") return freshDatabaseWith(kind, fenceTable(kind), PAPER, blank(name));
  const file = join(folder, "resource.db");
  const db = new Database(file);
  db.exec(`${fenceTable("sqlite")} ${PAPER}; ${blank(name)}`);
  db.close();
  return file;
}

/** A service that keeps one line, behind a fence. */
async function service(): Promise<string> {
  let kept = "";
  const fenced = httpFence();
  const server = createServer(async (request, response) => {
    if (request.method === "GET") return void response.end(kept);
    let line = "";
    for await (const chunk of request) line += String(chunk);
    try {
      await fenced(request, () => {
        kept = line;
      });
      response.end();
    } catch (error) {
      const problem = fenceProblem(error);
      if (problem === undefined) return void response.writeHead(500).end(String(error));
      response.writeHead(problem.status, problem.headers).end(problem.body);
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  afterAll(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** A process that holds the lock and writes when it is told to. */
async function writer(...args: string[]) {
  const child = fork(fileURLToPath(address("writer.mjs")), args);
  onTestFinished(() => void child.kill("SIGKILL"));
  const messages = on(child, "message");
  const next = async () => (await messages.next()).value[0] as Record<string, unknown>;
  return {
    signal: (signal: "SIGSTOP" | "SIGCONT") => child.kill(signal),
    next,
    token: BigInt((await next()).token as string),
    send: (message: object) => void child.send(message),
    async write(line: string, as: "lease" | "token"): Promise<Done> {
      child.send({ write: line, as });
      return (await next()).done as Done;
    },
  };
}

describe("scenario S5 at the resource: a process is stopped past its ttl, a successor writes, the late write is refused", () => {
  test.each(KINDS)("%s", async (kind) => {
    const name = `stock:${randomUUID()}`;
    const url = await prepared(kind, name);
    const locksUrl = `sqlite:${join(folder, `${kind}.locks`)}`;
    const { open } = (await import(address("resources.mjs").href)) as {
      open(kind: Kind, url: string): Promise<Resource>;
    };
    const resource = await open(kind, url);
    onTestFinished(() => resource.close());
    const late = await writer(locksUrl, TTL, name, kind, url);
    expect(await late.write("in time", "lease")).toEqual({ code: "written" });

    // Where no look at a clock can help: it has looked at its lease, and has not yet asked the resource. A request
    // is ended by the signal of the lease, so that one goes without.
    late.send({ write: "too late", as: kind === "http" ? "token" : "lease", pause: true });
    expect(await late.next()).toEqual({ at: "the gap" });
    late.signal("SIGSTOP");
    await using locks = await connect(locksUrl, { ttl: TTL });
    const successor = await locks.mutex(name).acquire();
    expect(successor.token).toBeGreaterThan(late.token);
    const write = (line: string) => resource.write(successor, line, async () => {});
    await write("by the successor");

    late.send({ go: "on" });
    late.signal("SIGCONT");
    const { done } = await late.next();
    expect(done).toMatchObject({ code: "stale-token", highest: successor.token.toString() });
    expect(await resource.read(name)).toBe("by the successor");

    // Again: the lease knows by now, and where only its token arrives, that is still refused.
    expect(await late.write("later", "lease")).toMatchObject({ code: "lost", loss: "paused" });
    expect(await late.write("later", "token")).toMatchObject({ code: "stale-token" });
    await write("and again");
    expect(await resource.read(name)).toBe("and again");
  });
});
