// A lock cannot stop a process that was paused past its expiry from writing late. The resource can: it keeps
// the newest token that it has seen, in the row that it protects, and the write and the check are one step.
// It needs a database: npm install libsql
import { setTimeout as sleep } from "node:timers/promises";
import Database from "libsql";
import { connect } from "locktender";

const db = new Database(":memory:");
db.exec("CREATE TABLE stock (item TEXT PRIMARY KEY, left INTEGER, token INTEGER)");
db.exec("INSERT INTO stock VALUES ('lamp', 1, 0)");
const take = db.prepare(
  "UPDATE stock SET left = :left, token = :token WHERE item = 'lamp' AND token <= :token",
);

/** Whether the write was let in. A token fits a signed 64-bit integer. */
const write = (left, token) => take.run({ left, token }).changes === 1;

const locks = await connect("memory:");
const lamp = locks.mutex("stock:lamp");

// Not renewed, as if the process stood still: its time is over before it writes.
const slow = await lamp.acquire({ ttl: "100ms", renew: false });
await sleep(150);
const next = await lamp.acquire();

const written = write(0, next.token);
console.log(`the holder writes: ${written ? "accepted" : "refused"}`);
const late = write(5, slow.token);
console.log(`the late one writes: ${late ? "accepted" : "refused"} (held: ${slow.held})`);

await locks.close();
process.exitCode = written && !late ? 0 : 1;
