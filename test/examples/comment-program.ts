// Runs the examples of comments that are named as arguments, one after the other, with what they use and do not define.
import { setTimeout as delay } from "node:timers/promises";
import Database from "libsql";
import { connect, type Locks } from "locktender";
import { fenceTable } from "locktender/fence";

interface Mail {
  readonly to: string;
}

/** What an example uses without defining it: locks that are open, and something to do under them. */
declare global {
  var locks: Locks;
  var db: Database.Database;
  var orderId: string;
  var mail: Mail;
  function work(signal?: AbortSignal): Promise<void>;
  function load(): Promise<readonly number[]>;
  function store(prices: readonly number[]): Promise<void>;
  function send(mail: Mail): Promise<void>;
  function transfer(amount: number): Promise<void>;
  function charge(orderId: string): Promise<string>;
  function ship(orderId: string, under: { signal: AbortSignal; token: bigint }): Promise<void>;
}

/** An example that goes on until its connection is closed has so long. */
const CLOSED_AFTER_MS = 300;

const pause = (signal?: AbortSignal) => delay(5, undefined, { signal }).catch(() => {});
Object.assign(globalThis, {
  orderId: "42",
  mail: { to: "ann" },
  work: pause,
  send: () => pause(),
  transfer: () => pause(),
  store: () => pause(),
  load: async () => [1, 2],
  charge: async (order: string) => `charged ${order}`,
  ship: (_order: string, { signal }: { signal: AbortSignal }) => pause(signal),
});

for (const file of process.argv.slice(2)) {
  console.log(`> ${file}`);
  globalThis.locks = await connect("memory:");
  globalThis.db = new Database(":memory:");
  db.exec(`${fenceTable("sqlite")}; CREATE TABLE shelf (item TEXT, pieces INTEGER)`);
  const own = globalThis.locks;
  const timer = setTimeout(() => void own.close({ drain: 0, abort: 0 }), CLOSED_AFTER_MS);
  await import(file);
  clearTimeout(timer);
  await own.close({ drain: 0, abort: 0 });
}
console.log("all of them have ended");
process.exit();
