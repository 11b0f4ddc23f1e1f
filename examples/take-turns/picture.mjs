const BAR = 20;
const LOG_LINES = 8;
const COLOURS = { good: 32, bad: 31, busy: 36, dim: 2, plain: 0 };

/** A live picture where it can be redrawn in place, else one line per event. */
export function openView(stdout = process.stdout) {
  const live = stdout.isTTY && process.env.TERM !== "dumb" && stdout.rows >= 20 && stdout.columns >= 60;
  return live ? new Picture(stdout) : new Lines(stdout);
}

const seconds = (atMs) => `${(atMs / 1000).toFixed(1).padStart(5)} s`;
const logLine = ({ atMs, text }) => `  ${seconds(atMs)}  ${text}`;

class Lines {
  #told = 0;

  constructor(stdout) {
    this.stdout = stdout;
  }

  draw({ log }) {
    for (const entry of log.slice(this.#told)) this.stdout.write(`${logLine(entry)}\n`);
    this.#told = log.length;
  }

  end(story) {
    this.draw(story);
  }
}

class Picture {
  #height = 0;

  constructor(stdout) {
    this.stdout = stdout;
    this.colours = process.env.NO_COLOR === undefined;
    stdout.write("\x1b[?25l");
  }

  draw(story) {
    const lines = linesOf(story).map(([text, kind = "plain"]) => this.#paint(text, kind));
    const back = this.#height === 0 ? "" : `\x1b[${this.#height}A\r`;
    this.#height = lines.length;
    this.stdout.write(`${back}${lines.map((line) => `${line}\x1b[K\n`).join("")}\x1b[J`);
  }

  end(story) {
    this.draw(story);
    this.stdout.write("\x1b[?25h");
  }

  /** Cut first: a line that wraps would spoil the next drawing. */
  #paint(text, kind) {
    const cut = text.slice(0, this.stdout.columns - 1);
    return this.colours && COLOURS[kind] !== 0 ? `\x1b[${COLOURS[kind]}m${cut}\x1b[0m` : cut;
  }
}

/** The picture as lines of text, each with its kind. */
function linesOf(story) {
  const { holders, waiters } = story.view;
  const names = (claims) => claims.map(({ owner }) => owner.instance);
  const queue = [...names(holders).map((name) => `[${name}]`), ...names(waiters)].join(" < ");
  const orders = story.book.orders.map(({ number, who }) => `${number} ${who}`).join(", ");
  const log = story.log.slice(-LOG_LINES);
  return [
    [`Four processes take turns at one lock.${seconds(story.elapsedMs).padStart(12)}`, "dim"],
    [""],
    ...[...story.cashiers.values()].map((cashier) => row(cashier, story.view)),
    [""],
    [`  queue   ${queue}`],
    [`  orders  ${orders}`],
    [""],
    ...log.map((entry) => [logLine(entry), entry.kind]),
    ...Array.from({ length: LOG_LINES - log.length }, () => [""]),
  ];
}

function row({ who, child, state, done, token }, { holders, waiters }) {
  const mine = ({ owner }) => owner.instance === who;
  const place = waiters.findIndex(mine) + 1;
  const claim = holders.find(mine);
  const told = {
    works: [`${bar(done)}  token ${token}`, "busy"],
    waits: [place === 0 ? "" : `place ${place}`, "plain"],
    killed: [claim === undefined ? "" : countdown(claim), "bad"],
    stopped: [claim === undefined ? `overtaken     token ${token}` : countdown(claim), "bad"],
    wakes: [`overtaken     token ${token}`, "bad"],
    done: ["", "dim"],
  };
  const [text, kind] = told[state] ?? ["", "plain"];
  return [`  ${who.padEnd(6)}${String(child.pid).padEnd(8)}${state.padEnd(9)}${text}`, kind];
}

const bar = (part) => "█".repeat(Math.round(part * BAR)).padEnd(BAR, "░");
const countdown = ({ remainingMs, token }) =>
  `its claim ends in ${(remainingMs / 1000).toFixed(1)} s     token ${token}`;
