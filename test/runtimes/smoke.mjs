// What a program does with a lock, in plain JavaScript: node, bun or deno, this file, and the URL of an engine.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { compiled } from "../support/compiled.mjs";

const TTL_MS = 1_000;
const [, , url, name] = process.argv;
const { connect } = await compiled("index.js");
const open = () => connect(url, { ttl: TTL_MS, wait: "20s" });

const [one, two] = [await open(), await open()];

// Held beyond its ttl, and by this client alone.
const held = await one.mutex(name).acquire();
assert.equal(await two.mutex(name).tryAcquire(), null);
await sleep(1.5 * TTL_MS);
assert.equal(held.held, true);

// Waited for, and handed over.
const waiting = two.mutex(name).acquire();
assert.equal(await Promise.race([waiting, sleep(200, "waits")]), "waits");
assert.equal(await held.release(), true);
const next = await waiting;
assert.ok(next.token > held.token);

// Lost, and told. The program has something to do meanwhile: renewals alone keep no process running.
await one.forceRelease(name, { reason: "a smoke test" });
while (!next.signal.aborted) await sleep(10);
assert.equal(next.signal.reason.code, "lost");
assert.equal(next.held, false);

// Closed: nothing keeps the process running.
await Promise.all([one.close(), two.close()]);
console.log("done");
