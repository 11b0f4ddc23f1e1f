import { OrderBook } from "./store.mjs";

/** What happens to whom: in which turn, and after which part of the work. */
const ACCIDENTS = [
  { who: "Anna", turn: 2, after: 0.4, signal: "SIGKILL" },
  { who: "Cleo", turn: 2, after: 0.4, signal: "SIGSTOP" },
];
/** So that people can see the successor's order before the stopped process goes on. */
const WAKE_AFTER_MS = 300;

const sinceMs = (from, to = process.hrtime.bigint()) => Number(to - from) / 1e6;

/** Hears what the cashiers tell, keeps the order book, and plays the accidents. Nothing is made up here. */
export class Story {
  book = new OrderBook();
  /** By name: what each process does now. */
  cashiers = new Map();
  /** Every grant: who, token, when it began (inAt) and ended (endAt), and how. */
  turns = [];
  log = [];
  view = { holders: [], waiters: [] };
  looks = 0;
  mostHolders = 0;
  startedAt = process.hrtime.bigint();
  #pending = [...ACCIDENTS];

  add(who, child) {
    this.cashiers.set(who, { who, child, state: "starts", done: 0, turns: 0, token: undefined });
    child.on("message", (message) => this.#hear(this.cashiers.get(who), message));
  }

  get elapsedMs() {
    return sinceMs(this.startedAt);
  }

  /** What `locks.inspect` says. */
  look(view) {
    this.view = view;
    this.looks++;
    this.mostHolders = Math.max(this.mostHolders, view.holders.length);
  }

  say(text, kind = "plain") {
    this.log.push({ atMs: this.elapsedMs, text, kind });
  }

  #hear(cashier, { type, at, ...said }) {
    const turn = this.turns.findLast(({ who }) => who === cashier.who);
    switch (type) {
      case "ready":
        cashier.state = "ready";
        break;
      case "waits":
        cashier.state = "waits";
        break;
      case "in":
        this.#enters(cashier, said.token, at);
        cashier.child.send(this.book.next());
        break;
      case "works":
        cashier.done = said.done;
        // The first look of a holder that was stopped.
        if (turn.wokenAt !== undefined) turn.heldAfterwards ??= said.held;
        this.#accident(cashier, turn);
        break;
      case "write":
        cashier.child.send(this.#write(cashier, turn, said));
        break;
      case "out":
        turn.endAt ??= at;
        cashier.state = "leaves";
        break;
      case "told":
        turn.told = said.loss;
        this.say(`${cashier.who} is told by lease.signal: "${said.loss}"`, "bad");
        break;
      case "rejected":
        turn.rejected = said.loss;
        break;
      case "done":
        cashier.state = "done";
        break;
    }
  }

  #enters(cashier, token, at) {
    const before = this.turns.at(-1);
    this.turns.push({ who: cashier.who, token, inAt: at, endAt: undefined, end: undefined });
    Object.assign(cashier, { state: "works", done: 0, turns: cashier.turns + 1, token });
    if (before?.end !== "SIGKILL" && before?.end !== "SIGSTOP") return;
    before.takeoverMs = sinceMs(before.endAt, at);
    const what = before.end === "SIGKILL" ? "kill" : "stop";
    this.say(`${cashier.who} is in, ${Math.round(before.takeoverMs)} ms after the ${what}`, "good");
  }

  #write(cashier, turn, { number, token }) {
    const { who } = cashier;
    const written = this.book.write({ number, who, token });
    if (written) {
      turn.end = "written";
      this.say(`${who} writes order ${number}`);
      this.#wakeAll();
    } else {
      this.say(`${who} wants to write another order ${number}: refused, its token is too old`, "good");
    }
    return written;
  }

  #accident(cashier, turn) {
    const accident = this.#pending.find(({ who }) => who === cashier.who);
    if (accident?.turn !== cashier.turns || cashier.done < accident.after) return;
    this.#pending.splice(this.#pending.indexOf(accident), 1);
    cashier.child.kill(accident.signal);
    turn.end = accident.signal;
    turn.endAt = process.hrtime.bigint();
    cashier.state = accident.signal === "SIGKILL" ? "killed" : "stopped";
    this.say(`${cashier.who} is ${cashier.state} in the middle of its work (${accident.signal})`, "bad");
  }

  /** A successor has written: time for the stopped one to go on as if nothing had happened. */
  #wakeAll() {
    for (const cashier of this.cashiers.values()) {
      if (cashier.state !== "stopped") continue;
      cashier.state = "wakes";
      setTimeout(() => {
        this.turns.findLast(({ who }) => who === cashier.who).wokenAt = process.hrtime.bigint();
        this.say(`${cashier.who} goes on where it was stopped (SIGCONT)`);
        cashier.child.kill("SIGCONT");
      }, WAKE_AFTER_MS).unref();
    }
  }
}
