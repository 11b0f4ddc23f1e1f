import type { Connection } from "../core/connection.js";

const SIGTERM_EXIT_CODE = 128 + 15;

/** Known to every copy of the package in this process. */
const OURS = Symbol.for("locktender.onSigterm");

/** What is to be closed first. One listener stands for all: at the eleventh, Node would warn of a leak. */
const closers = new Set<() => Promise<void>>();

/**
 * On SIGTERM, closes first. Handlers of the user's stay in charge: only where there are none is the
 * signal raised again, so that the process ends as it would have without us.
 */
export function closeOnSigterm(connection: Connection, close: () => Promise<void>): void {
  if (closers.size === 0) process.prependListener("SIGTERM", onSigterm);
  closers.add(close);
  connection.onFinish(() => forget(close));
}

function forget(close: () => Promise<void>): void {
  closers.delete(close);
  if (closers.size === 0) process.removeListener("SIGTERM", onSigterm);
}

function onSigterm(): void {
  // Asked first, before a handler of the user's that is called once is taken off the list.
  const alone = process.listeners("SIGTERM").every((listener) => OURS in listener);
  for (const close of closers) {
    const end = () => {
      forget(close);
      if (!alone || process.listenerCount("SIGTERM") > 0) return;
      // The first process of a container has no default action for signals: nothing would happen.
      if (process.pid === 1) process.exit(SIGTERM_EXIT_CODE);
      process.kill(process.pid, "SIGTERM");
    };
    void close().then(end, end);
  }
}
Object.defineProperty(onSigterm, OURS, { value: true });
